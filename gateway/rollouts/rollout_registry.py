"""The rollout service behind the command line and the admin API: orders, and what has become of them."""

import contextlib
import secrets
from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from gateway.config.errors import ConfigError, convert
from gateway.config.models.rollout_checks import rollout_problems
from gateway.config.models.settings import Model
from gateway.config.settings import Config
from gateway.fleets.reports import reports
from gateway.rollouts.declared import stable_now
from gateway.rollouts.measures.stored_measures import read_measures
from gateway.rollouts.orders import Order, begun, is_under_way, order_of, order_of_model, place_of
from gateway.rollouts.rollout_records import MOST_STORED, Records, read_events, read_records
from gateway.rollouts.rollout_series import RolloutSeries, rollout_series
from gateway.rollouts.shadow.shadow_sums import ShadowReport, read_report
from gateway.rollouts.sizes import room_of
from gateway.rollouts.unreadable import check_nobody_reads, clear, said
from gateway.rollouts.versions import version_facts
from gateway.store.lua_script import Script
from gateway.tenancy.tenants.transactions import Entry, Step, Storage, commit, read, until_committed
from protos.errors import Conflict, InvalidRequest, RolloutNotFound, StoreUnavailable
from routing.rollouts.rollout import ENDED, HURRY, Event, Rollout, Totals, Wish
from routing.rollouts.settings import Rollout as Settings
from routing.rollouts.stages import SETTLED, needed
from routing.rollouts.verdicts.verdict import Verdict

#: Events that are told at most.
MOST_TOLD: Final = 500
# A user who may not publish loses the haste alone: the controller looks once a second.
_ANNOUNCE: Final = Script("redis.pcall('PUBLISH', ARGV[1], '') return 1")
_WORDS: Final = {"pause": "paused", "promote": "promoted", "abort": "aborted", "run": "resumed"}


class RolloutView(Record, frozen=True, kw_only=True):
    """A model's last rollout, and who looks after it."""

    rollout: Rollout
    wish: Annotated[Wish, Meta(description="What an operator wants of it.")]
    taken: Annotated[bool, Meta(description="Whether a controller has begun with it.")] = True
    controller: Annotated[str, Meta(description="Host and process that act; empty: none does now.")] = ""
    verdict: Annotated[Verdict | None, Meta(description="The last comparison of its versions; null: none.")] = None
    shadow: Annotated[
        ShadowReport | None,
        Meta(description="What copies of requests have shown of its candidate; null: none was made."),
    ] = None


class ModelVersions(Record, frozen=True, kw_only=True):
    """A model whose requests go by version."""

    object: Literal["rollout.model"] = "rollout.model"
    model: str
    stable: Annotated[str, Meta(description="The version that answers what no candidate does.")]
    versions: Annotated[Sequence[str], Meta(description="Those that the configuration names.")]
    rollout: Annotated[RolloutView | None, Meta(description="Its last one; null: it had none.")]
    totals: Annotated[Totals, Meta(description="How its rollouts have ended.")]
    unreadable: Annotated[
        Sequence[str],
        Meta(description="Keys of the store of which this program version cannot read its record; an abort clears it."),
    ] = ()


class RolloutRegistry:
    """Shows and orders rollouts. Methods raise StoreUnavailable; the audit trail has `actor` (`cli:root`)."""

    def __init__(self, storage: Storage, config: Config) -> None:
        self._storage = storage
        self._config = config
        self._models = {model.name: model for model in config.models if model.names_versions}

    async def models(self, model: str | None = None) -> list[ModelVersions]:
        """All models whose requests go by version, or one, in the configuration's order.

        Raises:
            RolloutNotFound: There is no such model.
        """
        wanted = self._models.values() if model is None else [self._model(model)]
        records = await read_records(self._storage)
        return [
            ModelVersions(
                model=one.name,
                stable=_stable(one, records),
                versions=one.pool_versions,
                rollout=await self._with_shadow(_view(one, records)),
                totals=records.totals.get(one.name, Totals()),
                unreadable=sorted(records.unreadable.get(one.name, ())),
            )
            for one in wanted
        ]

    async def view(self, model: str) -> RolloutView:
        """A model's last rollout.

        Raises:
            RolloutNotFound: It has had none, or there is no such model.
        """
        found = _view(self._model(model), await read_records(self._storage))
        if found is None:
            raise RolloutNotFound(f"The model '{model[:64]}' has had no rollout.", param="model")
        found = await self._with_shadow(found)
        assert found is not None, "it was there"
        return found

    async def events(self, model: str | None, most: int) -> list[Event]:
        """The last events, of one model or of all, the newest last.

        Raises:
            RolloutNotFound: There is no such model.
        """
        if model is not None:
            self._model(model)
        found = await read_events(self._storage, MOST_STORED)
        return [event for event in found if model in (None, event.model)][-most:]

    async def series(self, model: str | None) -> list[RolloutSeries]:
        """The measures over time of the last rollout of all models that have had one, or of one model.

        Raises:
            RolloutNotFound: There is no such model.
        """
        if model is not None:
            self._model(model)
        records = await read_records(self._storage)
        found = []
        for name, rollout in records.rollouts.items():
            if name in self._models and model in (None, name):
                measures = await read_measures(self._storage, rollout.id, records.now)
                stable, candidate = (measures.of(one) for one in (rollout.stable, rollout.candidate))
                found.append(rollout_series(rollout, stable, candidate, records.now))
        return found

    def settings(self, model: str, to: str) -> Settings:
        """Return the settings that the file declares for a rollout, else the defaults.

        Raises:
            RolloutNotFound: There is no such model.
        """
        self._model(model)
        declared = (one for one in self._config.rollouts if (one.model, one.to) == (model, to))
        return next(declared, Settings(model=model, to=to))

    async def start(self, settings: Settings, actor: str, declared: str = "") -> RolloutView:
        """Order a rollout; `declared` is the digest of its declaration, where the file has it.

        Raises:
            RolloutNotFound: There is no such model.
            InvalidRequest: The settings are wrong, the version is unknown or stable already, or has too little room.
            Conflict: Another rollout of the model is under way, or cannot be read.
        """
        # Events go to the address that the file declares, which may hold a secret.
        settings = _checked(msgspec.structs.replace(settings, webhook=None))
        model = self._model(settings.model)
        place = place_of(model.name)

        async def handle() -> RolloutView | None:
            now, (raw,) = await read(self._storage, [place])
            records, before = await read_records(self._storage), order_of(raw)
            last = records.rollouts.get(model.name)
            if model.name in records.unreadable:
                raise Conflict(f"model: {said(model.name, records.unreadable[model.name])}", param="model")
            under_way = order_of_model(before, last)
            if under_way is not None and is_under_way(under_way, last):
                raise Conflict(
                    f"model: a rollout of {model.name} to {under_way.settings.to} is under way; abort it, or wait for "
                    "its end",
                    param="model",
                )
            await self._check(model, settings, _stable(model, records))
            order = Order(
                id=f"{model.name}-{secrets.token_hex(6)}",
                settings=settings,
                actor=actor,
                at=now,
                declared=declared,
                after=last.id if last is not None else "",
            )
            written = msgspec.json.encode(order)
            entry = Entry(actor, "rollout.start", model.name, raw if before is not None else b"", written)
            if not await commit(self._storage, [Step(place, raw, written)], entry):
                return None
            stored = records.splits.get(model.name)
            epoch = max(last.epoch if last is not None else 0, stored.epoch if stored is not None else 0)
            return _ordered(order, model, epoch, records)

        done = await until_committed(handle)
        await self._announce()
        return done

    async def set_wish(self, model: str, wish: Wish, actor: str) -> RolloutView:
        """Have a rollout that is under way paused, go on (`run`), promoted or aborted. An abort also clears what
        cannot be read.

        Raises:
            RolloutNotFound: None is under way, or there is no such model.
            Conflict: It is settled already: nothing changes its outcome any more. Or it cannot be read.
        """
        place = place_of(self._model(model).name)

        async def handle() -> RolloutView | None:
            _, (raw,) = await read(self._storage, [place])
            order, records = order_of(raw), await read_records(self._storage)
            rollout = records.rollouts.get(model)
            unreadable = records.unreadable.get(model)
            if unreadable is not None and wish != "abort":
                raise Conflict(f"model: {said(model, unreadable)}", param="model")
            if unreadable is not None and (rollout is None or rollout.phase in ENDED):
                return await self._clear(model, raw, records, actor)
            order = order_of_model(order, rollout)
            if order is None or not is_under_way(order, rollout):
                raise RolloutNotFound(f"No rollout of '{model[:64]}' is under way.", param="model")
            if rollout is not None and rollout.id == order.id and rollout.phase in SETTLED:
                outcome = f"{rollout.candidate if rollout.promoted else rollout.stable} answers all requests"
                raise Conflict(
                    f"The rollout is {rollout.phase.replace('_', ' ')}: {outcome}. It cannot be {_WORDS[wish]}.",
                    param="model",
                )
            # Whoever has aborted it was told so: nobody takes that back unseen.
            if order.wish == "abort" != wish or (order.wish == "promote" and wish in ("run", "pause")):
                raise Conflict(
                    f"The rollout is being {_WORDS[order.wish]}. It cannot be {_WORDS[wish]}.", param="model"
                )
            after = msgspec.structs.replace(order, wish=wish)
            if after != order:
                written = msgspec.json.encode(after)
                action = "rollout.resume" if wish == "run" else f"rollout.{wish}"
                if not await commit(
                    self._storage, [Step(place, raw, written)], Entry(actor, action, model, raw, written)
                ):
                    return None
            changed = msgspec.structs.replace(records, orders={**records.orders, model: after})
            return _view(self._models[model], changed)

        done = await until_committed(handle)
        await self._announce()
        return done

    async def _clear(self, model: str, raw: bytes, records: Records, actor: str) -> RolloutView | None:
        """Clear what cannot be read, its order first, so that no controller begins it anew."""
        check_nobody_reads(model, records)
        if not await commit(self._storage, [Step(place_of(model), raw, b"")], Entry(actor, "rollout.abort", model)):
            return None
        ended = await clear(self._storage, self._models[model], records, actor)
        return None if ended is None else RolloutView(rollout=ended, wish="abort", controller=records.controller)

    async def _with_shadow(self, view: RolloutView | None) -> RolloutView | None:
        """Add what copies have shown, if the rollout's plan has any."""
        if view is None or view.rollout.settings.plan not in ("shadow", "gates"):
            return view
        report, rollout = await read_report(self._storage, view.rollout.model), view.rollout
        if report is None or not rollout.first_epoch <= report.epoch <= rollout.epoch:
            return view
        return msgspec.structs.replace(view, shadow=report)

    async def _check(self, model: Model, settings: Settings, stable: str) -> None:
        """Refuse what cannot be rolled out. Raises InvalidRequest."""
        # What is stable by now counts, not what the file began with.
        models = [msgspec.structs.replace(one, stable=stable) if one is model else one for one in self._config.models]
        config = msgspec.structs.replace(self._config, models=tuple(models), rollouts=(settings,))
        for path, problem in rollout_problems(config):
            field = path.removeprefix("rollouts[0].")
            raise InvalidRequest(f"{field}: {problem}", param=field)
        fleets = await reports(self._storage)
        candidate, baseline = (version_facts(model, version, fleets) for version in (settings.to, stable))
        if settings.to not in model.pool_versions and not candidate.replicas:
            known = ", ".join(model.pool_versions) or "none"
            raise InvalidRequest(
                f"to: no pool of {model.name} names the version {settings.to!r}, and no replica reports it; named are "
                f"{known}",
                param="to",
            )
        size = max(len(baseline.ready), 1)
        shares = settings.shares or (settings.shadow.share,)
        least = needed(size, max(shares))
        room = room_of(model, settings.to, least, baseline)
        if candidate.launched and room < least:
            raise InvalidRequest(
                f"to: the pools of {settings.to} may have {room} replicas (`scaling.max`), and {least} are "
                f"needed beside the {size} of {stable}",
                param="to",
            )

    def _model(self, name: str) -> Model:
        if name not in self._models:
            none = "no model has `stable`, or pools of several versions"
            listed = f"those that do: {', '.join(self._models)}" if self._models else none
            raise RolloutNotFound(f"No model '{name[:64]}' has versions; {listed}.", param="model")
        return self._models[name]

    async def _announce(self) -> None:
        """Have the controller look at once; where that cannot be told, it looks within a second."""
        with contextlib.suppress(StoreUnavailable):
            await self._storage.run(_ANNOUNCE, [HURRY], [HURRY])


def _checked(settings: Settings) -> Settings:
    """Check each value by itself, as a controller does that reads them. Raises InvalidRequest."""
    try:
        return convert(msgspec.to_builtins(settings), Settings, "")
    except ConfigError as error:
        raise InvalidRequest(f"{error.path}: {error.problem}", param=error.path) from error


def _stable(model: Model, records: Records) -> str:
    return stable_now(model, records.splits.get(model.name))


def _view(model: Model, records: Records) -> RolloutView | None:
    rollout = records.rollouts.get(model.name)
    order = order_of_model(records.orders.get(model.name), rollout)
    if order is not None and (rollout is None or rollout.id != order.id):
        return _ordered(order, model, rollout.epoch if rollout is not None else 0, records)
    if rollout is None:
        return None
    told = records.told
    return RolloutView(
        rollout=rollout,
        wish=order.wish if order is not None else "run",
        controller=records.controller,
        verdict=told.verdicts.get(model.name) if told is not None else None,
    )


def _ordered(order: Order, model: Model, epoch: int, records: Records) -> RolloutView:
    """Show an order that no controller has taken."""
    stable = _stable(model, records)
    rollout = msgspec.structs.replace(
        begun(order, model, stable, epoch, order.at), problem="until a controller takes it", reason="it was ordered"
    )
    return RolloutView(rollout=rollout, wish=order.wish, taken=False, controller=records.controller)
