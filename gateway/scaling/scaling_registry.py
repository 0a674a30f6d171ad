"""The scaling service behind the command line and the admin API: what is wanted and why, sizes set by hand, pauses."""

from collections.abc import Callable, Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from gateway.config.settings import Config
from gateway.scaling.overrides import NO_OVERRIDE, Override, override_of, place_of, stored_overrides
from gateway.scaling.settings import ScaledModel, scaled_models, shape_name
from gateway.scaling.status import (
    FRESH_SECONDS,
    ControllerStatus,
    DecisionRecord,
    Mode,
    ModelStatus,
    PoolStatus,
    read_status,
)
from gateway.scaling.stored_decisions import MOST_READ, read_decisions
from gateway.tenancy.tenants.transactions import Entry, Step, Storage, commit, read, until_committed
from protos.errors import InvalidRequest, ReplicaNotFound

#: Decisions that are told of one model at most.
MOST_EXPLAINED: Final = 100


class ScalingView(Record, frozen=True, kw_only=True):
    """All that scales."""

    age_seconds: Annotated[
        float | None, Meta(description="Age of what is told; null: no controller has told anything yet.")
    ]
    controller: Annotated[ControllerStatus | None, Meta(description="Who acts; null: nobody does now.")]
    models: Sequence[ModelStatus]


class OverrideView(Record, frozen=True, kw_only=True):
    """What operators have set about a model."""

    object: Literal["scaling.override"] = "scaling.override"
    model: str
    mode: Annotated[Mode, Meta(description="`advise`: it is told, and nothing follows from it.")]
    paused: bool
    pinned: Annotated[dict[str, int], Meta(description="Replicas by pool, in place of what would be wanted.")]


class ScalingRegistry:
    """Shows and changes scaling. Methods raise StoreUnavailable; the audit trail has `actor` (`cli:root`)."""

    def __init__(self, storage: Storage, config: Config) -> None:
        self._storage = storage
        self._models = {model.name: model for model in scaled_models(config)}

    async def view(self, model: str | None = None) -> ScalingView:
        """All models that scale, or one, as the controller last told, in the configuration's order.

        Raises:
            ReplicaNotFound: No such model scales.
        """
        if model is not None:
            self._model(model)
        now, status = await read_status(self._storage)
        overrides = (await stored_overrides(self._storage)).found
        told = {} if status is None else {one.model: one for one in status.models}
        wanted = [one for one in self._models.values() if model in (None, one.name)]
        age = None if status is None else max(now - status.at, 0.0)
        fresh = age is not None and age <= FRESH_SECONDS
        return ScalingView(
            age_seconds=age if age is None else round(age, 1),
            controller=status.controller if status is not None and fresh else None,
            models=[_shown(one, told.get(one.name), overrides.get(one.name, NO_OVERRIDE)) for one in wanted],
        )

    async def decisions(self, model: str | None, most: int) -> list[DecisionRecord]:
        """The last decisions, on one model or on all, the newest last.

        Raises:
            ReplicaNotFound: No such model scales.
        """
        if model is not None:
            self._model(model)
        found = await read_decisions(self._storage, most=MOST_READ * max(len(self._models), 1))
        return [record for record in found if model in (None, record.model)][-most:]

    async def set_replicas(self, model: str | None, pool: str, replicas: int | None, actor: str) -> OverrideView:
        """Have a pool of `replicas`, whatever would be wanted; None: what is wanted again.

        Raises:
            ReplicaNotFound: No such pool scales.
            InvalidRequest: The pool may not have so many, or several models have such a pool.
        """
        owner = self._owner(model, pool)
        bounds = next(one.scaling for one in owner.pools if one.name == pool)
        if replicas is not None and not 0 <= replicas <= bounds.max:
            raise InvalidRequest(
                f"replicas: expected 0 to {bounds.max}, the pool's max, got {replicas}", param="replicas"
            )

        def changed(before: Override) -> Override:
            pinned = {name: count for name, count in before.pinned.items() if name != pool}
            if replicas is not None:
                pinned[pool] = replicas
            return msgspec.structs.replace(before, pinned=pinned)

        return await self._change(owner.name, "scaling.set", changed, actor)

    async def pause(self, model: str, actor: str) -> OverrideView:
        """Start and stop nothing of a model any more; decisions go on being told.

        Raises:
            ReplicaNotFound: No such model scales.
        """
        self._model(model)
        return await self._change(
            model, "scaling.pause", lambda before: msgspec.structs.replace(before, paused=True), actor
        )

    async def resume(self, model: str, actor: str) -> OverrideView:
        """Undo a pause.

        Raises:
            ReplicaNotFound: No such model scales.
        """
        self._model(model)
        return await self._change(
            model, "scaling.resume", lambda before: msgspec.structs.replace(before, paused=False), actor
        )

    async def _change(
        self, model: str, action: str, changed: Callable[[Override], Override], actor: str
    ) -> OverrideView:
        place = place_of(model)

        async def handle() -> Override | None:
            _, (raw,) = await read(self._storage, [place])
            before = override_of(raw)
            after = changed(before)
            if after == before:
                return before
            written = b"" if after == NO_OVERRIDE else msgspec.json.encode(after)
            entry = Entry(actor, action, model, msgspec.json.encode(before) if raw else b"", written)
            return after if await commit(self._storage, [Step(place, raw, written)], entry) else None

        done = await until_committed(handle)
        return OverrideView(model=model, mode=self._models[model].mode, paused=done.paused, pinned=dict(done.pinned))

    def _model(self, name: str) -> ScaledModel:
        if name not in self._models:
            raise ReplicaNotFound(f"No model '{name[:64]}' scales; {self._listed()}.", param="model")
        return self._models[name]

    def _owner(self, model: str | None, pool: str) -> ScaledModel:
        """Find the model whose pool it is; `model` None: the only one that has it."""
        models = self._models.values() if model is None else [self._model(model)]
        owners = [one for one in models if any(other.name == pool for other in one.pools)]
        if not owners:
            known = ", ".join(sorted({other.name for one in models for other in one.pools})) or "none"
            raise ReplicaNotFound(f"No pool '{pool[:64]}' scales; those that do: {known}.", param="pool")
        if len(owners) > 1:
            names = ", ".join(one.name for one in owners)
            raise InvalidRequest(f"model: several have a pool '{pool}': {names}", param="model")
        return owners[0]

    def _listed(self) -> str:
        return f"there are {', '.join(self._models)}" if self._models else "no pool has a launcher"


def _shown(model: ScaledModel, told: ModelStatus | None, override: Override) -> ModelStatus:
    """Return what was told of a model, with what is set now; its bounds alone where nothing was told."""
    pinned = override.pinned
    if told is None:
        pools = [
            PoolStatus(
                name=pool.name,
                launcher=pool.launcher,
                shape=shape_name(pool.scaling.shape),
                min=pool.scaling.min,
                max=pool.scaling.max,
                wanted=0,
                needed=0,
                ready=0,
                pinned=pinned.get(pool.name),
                price_per_hour=pool.scaling.price,
                spot_price_per_hour=pool.scaling.spot_price,
            )
            for pool in model.pools
        ]
        return ModelStatus(
            model=model.name, mode=model.mode, paused=override.paused, pools=pools, budget_per_hour=model.scaling.budget
        )
    shown = [msgspec.structs.replace(pool, pinned=pinned.get(pool.name)) for pool in told.pools]
    return msgspec.structs.replace(told, paused=override.paused, pools=shown)
