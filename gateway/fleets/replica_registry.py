"""The replica service behind the command line and the admin API: listing, draining and resuming."""

import math
from collections.abc import Awaitable, Callable

import msgspec

from gateway.config.settings import Config
from gateway.fleets.configured import ConfiguredReplica, configured_pools, configured_replicas, model_of
from gateway.fleets.drains import LONGEST_GRACE_SECONDS, Drain, drains_of, place_of
from gateway.fleets.listing import ReplicaView, listing
from gateway.fleets.reports import Report, found_replicas, reports
from gateway.tenancy.tenants.transactions import DRAINS, Entry, Step, Storage, commit, read, until_committed
from protos.errors import Conflict, InvalidRequest, ReplicaNotFound


class ReplicaRegistry:
    """Lists, drains and resumes replicas. Methods raise StoreUnavailable; the audit trail has `actor` (`cli:root`).

    A `target` is a replica (`narrow/0`) or a pool (`narrow`), of `model`, or of the only one that has it.
    """

    def __init__(
        self,
        storage: Storage,
        config: Config,
        more_drains: Callable[[Storage], Awaitable[list[Drain]]] | None = None,
    ) -> None:
        """`more_drains` reads drains that no operator has asked for, to be shown; it raises StoreUnavailable."""
        self._storage = storage
        self._config = config
        self._more_drains = more_drains
        self._pools = configured_pools(config)

    @property
    def models(self) -> tuple[str, ...]:
        """The names of all models, with or without replicas."""
        return self._config.model_names

    async def replicas(self, model: str | None = None) -> list[ReplicaView]:
        """All replicas, or those of one model, in the configuration's order.

        Raises:
            ReplicaNotFound: There is no such model.
        """
        if model is not None and model not in self._config.model_names:
            model_of(list(configured_replicas(self._config)), model, "", self._pools)
        drains, all_reports = drains_of(await self._storage.hgetall(DRAINS)), await reports(self._storage)
        if self._more_drains is not None:
            drains += await self._more_drains(self._storage)
        return listing(
            [replica for replica in self._known(all_reports) if model in (None, replica.model)], all_reports, drains
        )

    async def drain(self, model: str | None, target: str, grace_seconds: float, actor: str) -> Drain:
        """Give no more requests to a replica or a pool; a repeated drain restarts the grace period.

        Raises:
            ReplicaNotFound: There is none of the name.
            InvalidRequest: Several models have one, or the grace is not from 0 s to a day.
        """
        model = model_of(self._known(await reports(self._storage)), model, target, self._pools)
        # NaN is in no range.
        if not 0 <= grace_seconds <= LONGEST_GRACE_SECONDS:
            shown = f"{grace_seconds:g}" if math.isfinite(grace_seconds) else str(grace_seconds)
            raise InvalidRequest(
                f"grace_seconds: expected 0 to {LONGEST_GRACE_SECONDS:.0f} (a day), got {shown}", param="grace_seconds"
            )
        place = place_of(model, target)

        async def handle() -> Drain | None:
            now, (before,) = await read(self._storage, [place])
            made = Drain(model=model, target=target, since=now, grace_seconds=grace_seconds, actor=actor)
            after = msgspec.json.encode(made)
            audited = Entry(actor, "replica.drain", place.field, before, after)
            return made if await commit(self._storage, [Step(place, before, after)], audited) else None

        return await until_committed(handle)

    async def resume(self, model: str | None, target: str, actor: str) -> list[Drain]:
        """Undo a drain, and with a pool's drain those of its replicas; returns the drains undone, maybe none.

        What is drained and no longer configured can be resumed too.

        Raises:
            ReplicaNotFound: There is none of the name.
            InvalidRequest: Several models have one.
            Conflict: The replica is drained with its whole pool.
        """
        known = self._known(await reports(self._storage))

        async def handle() -> list[Drain] | None:
            drains = drains_of(await self._storage.hgetall(DRAINS))
            owner = self._owner(known, drains, model, target)
            ended = [
                drain
                for drain in drains
                if drain.model == owner and (drain.target == target or drain.target.startswith(f"{target}/"))
            ]
            pool = target.partition("/")[0]
            if pool != target and any((drain.model, drain.target) == (owner, pool) for drain in drains):
                raise Conflict(f"'{target}' is drained with its pool '{pool}'; resume that.", param="target")
            if not ended:
                return []
            places = [place_of(drain.model, drain.target) for drain in ended]
            _, values = await read(self._storage, places)
            steps = [Step(place, value, b"") for place, value in zip(places, values, strict=True)]
            audited = Entry(actor, "replica.resume", f"{owner} {target}", before=msgspec.json.encode(ended))
            return ended if await commit(self._storage, steps, audited) else None

        return await until_committed(handle)

    def _known(self, all_reports: list[Report]) -> list[ConfiguredReplica]:
        return list(configured_replicas(self._config, found_replicas(all_reports)))

    def _owner(self, known: list[ConfiguredReplica], drains: list[Drain], model: str | None, target: str) -> str:
        try:
            return model_of(known, model, target, self._pools)
        except ReplicaNotFound:
            left = {drain.model for drain in drains if drain.target == target and model in (None, drain.model)}
            if len(left) == 1:
                return left.pop()
            raise
