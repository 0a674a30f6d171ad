"""A worker's part: says how its replicas are, learns which ones register, and drains what operators want drained."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from gateway.config.settings import Config
from gateway.fleets.configured import configured_replicas
from gateway.fleets.discovery.registrations import Registration, registered
from gateway.fleets.drains import Drain, drains_of, ends
from gateway.fleets.reports import found_replicas, report
from gateway.tenancy.tenants.transactions import DRAINS, Storage
from protos.errors import StoreUnavailable
from routing.health.replica_status import ReplicaStatus

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


class Finder(Protocol):
    """Who makes replicas out of registrations."""

    @property
    def wants_registrations(self) -> bool:
        """Whether any are to be asked for."""
        ...

    def registered(self, replicas: list[Registration]) -> None:
        """Take in what the store has of them."""
        ...


class FleetSync:
    """While the store is away, what it said last of drains and of registered replicas holds."""

    def __init__(
        self,
        storage: Storage,
        config: Config,
        worker: str,
        fleets: Mapping[str, Drainable],
        clock: Callable[[], float] = time.monotonic,
        finder: Finder | None = None,
    ) -> None:
        """`fleets` are this worker's, by model, and `clock` is theirs; `finder` is told what registers."""
        self._storage = storage
        self._config = config
        self._finder = finder
        self._drains: list[Drain] = []
        #: What to add to the store's time to have that of `clock`.
        self._offset = 0.0
        self._worker = worker
        self._fleets = fleets
        self._clock = clock
        self._away = False

    async def run(self) -> None:
        """Exchange for ever."""
        while True:
            try:
                await self.exchange()
            except Exception:
                # Whatever it was: drains that nobody heeds any more are worse than one round that was missed.
                log.exception("exchanging with the store what is known of replicas")
            await asyncio.sleep(SYNC_SECONDS)

    async def exchange(self) -> None:
        """One round."""
        try:
            now = await report(self._storage, self._worker, self._statuses())
            drains = drains_of(await self._storage.hgetall(DRAINS))
            wanted = self._finder is not None and self._finder.wants_registrations
            replicas = await registered(self._storage) if wanted else []
        except StoreUnavailable as error:
            if not self._away:
                log.warning("drained and registered replicas stay as they are: %s", error.__cause__ or error)
            self._away = True
            if self._drains:
                # A replica that left and came back meanwhile is still drained.
                self.heed()
            return
        self._away = False
        self._drains, self._offset = drains, self._clock() - now
        if self._finder is not None and wanted:
            self._finder.registered(replicas)
        self.heed()

    def heed(self) -> None:
        """Drain what is to be drained of the replicas that there are now; to be called whenever others come."""
        until: dict[str, dict[str, float]] = {model: {} for model in self._fleets}
        # Of a large fleet this takes a while, and mostly nothing is drained.
        found = found_replicas([self._statuses()]) if self._drains else ()
        replicas = list(configured_replicas(self._config, found)) if self._drains else []
        for (model, replica_id), end in ends(self._drains, replicas).items():
            until[model][replica_id] = end + self._offset
        for model, fleet in self._fleets.items():
            fleet.drain(until[model])

    def _statuses(self) -> dict[str, list[ReplicaStatus]]:
        return {model: fleet.statuses() for model, fleet in self._fleets.items()}
