"""A worker's part: says how its replicas are, and drains what operators want drained."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from gateway.config import Config
from gateway.fleets.configured import configured_replicas
from gateway.fleets.drains import drains_of, ends
from gateway.fleets.reports import report
from gateway.tenants.transactions import DRAINS, Storage
from protos.errors import StoreUnavailable
from routing.health.status import ReplicaStatus

log = logging.getLogger(__name__)

#: How often a worker looks, so that it heeds a drain within a second.
SYNC_SECONDS: Final = 0.5


class Drainable(Protocol):
    """What is asked of a fleet."""

    def statuses(self) -> list[ReplicaStatus]:
        """How every replica is."""
        ...

    def drain(self, until: Mapping[str, float]) -> None:
        """Give no requests to these replicas; what still runs there at these times goes elsewhere."""
        ...


class FleetExchange:
    """While the store is away, what it said last of drains holds."""

    def __init__(
        self,
        storage: Storage,
        config: Config,
        worker: str,
        fleets: Mapping[str, Drainable],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`fleets` are this worker's, by model, and `clock` is theirs."""
        self._storage = storage
        self._replicas = list(configured_replicas(config))
        self._worker = worker
        self._fleets = fleets
        self._clock = clock
        self._away = False

    async def run(self) -> None:
        """Exchange for ever."""
        while True:
            await self.exchange()
            await asyncio.sleep(SYNC_SECONDS)

    async def exchange(self) -> None:
        """One round."""
        try:
            now = await report(
                self._storage, self._worker, {model: fleet.statuses() for model, fleet in self._fleets.items()}
            )
            drains = drains_of(await self._storage.hgetall(DRAINS))
        except StoreUnavailable as error:
            if not self._away:
                log.warning("drained replicas stay as they are: %s", error.__cause__ or error)
            self._away = True
            return
        self._away = False
        until: dict[str, dict[str, float]] = {model: {} for model in self._fleets}
        for (model, replica_id), end in ends(drains, self._replicas).items():
            until[model][replica_id] = self._clock() + end - now
        for model, fleet in self._fleets.items():
            fleet.drain(until[model])
