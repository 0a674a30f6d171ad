"""A worker's exchange with the store: reports replica statuses, reads registrations, and applies drains."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, Protocol

from gateway.config.settings import Config
from gateway.fleets.configured import configured_replicas
from gateway.fleets.discovery.registrations import Registration, registered
from gateway.fleets.drains import Drain, drains_of, grace_ends
from gateway.fleets.reports import Reporter, found_replicas
from gateway.tenancy.tenants.transactions import DRAINS, Storage
from protos.errors import StoreUnavailable
from routing.health.replica_status import ReplicaStatus

log = logging.getLogger(__name__)

#: Seconds between two exchanges, so that a drain takes effect within a second.
SYNC_SECONDS: Final = 0.5


class Drainable(Protocol):
    """A fleet whose replicas can be drained."""

    def statuses(self) -> Sequence[ReplicaStatus]:
        """The status of every replica; the same object only where none has changed."""
        ...

    def drain(self, until: Mapping[str, float]) -> None:
        """Give no new requests to these replicas; requests still running there at these times move elsewhere."""
        ...


class RegistrationReceiver(Protocol):
    """The receiver of registrations."""

    @property
    def wants_registrations(self) -> bool: ...

    def registered(self, replicas: list[Registration]) -> None:
        """Take over the store's registrations."""
        ...


class FleetSync:
    """The exchange of a worker. While the store is away, the last drains and registrations stay in effect."""

    def __init__(
        self,
        storage: Storage,
        config: Config,
        worker: str,
        fleets: Mapping[str, Drainable],
        clock: Callable[[], float] = time.monotonic,
        finder: RegistrationReceiver | None = None,
        more_drains: Callable[[Storage], Awaitable[list[Drain]]] | None = None,
        last: "FleetSync | None" = None,
    ) -> None:
        """`fleets` are this worker's, by model, and `clock` is theirs; `finder` receives registrations.

        `more_drains` reads drains that no operator has asked for; it raises StoreUnavailable. The `last` one, of
        another configuration, hands over the drains that it knows, and is not run any more once this one is.
        """
        self._storage = storage
        self._config = config
        self._finder = finder
        self._more_drains = more_drains
        self._drains: list[Drain] = [] if last is None else last._drains
        #: Offset from the store's clock to `clock`.
        self._offset: float = 0.0 if last is None else last._offset
        # The store tells a worker's reports apart by their number, which the reporter counts.
        self._reporter: Reporter = Reporter(storage, worker) if last is None else last._reporter
        self._fleets = fleets
        self._clock = clock
        self._away = False
        self._announced = asyncio.Event()

    async def run(self) -> None:
        """Exchange until cancelled, and look at registrations in between when they are announced."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            self._announced.clear()
            try:
                if loop.time() >= due:
                    await self.exchange()
                    due = loop.time() + SYNC_SECONDS
                else:
                    await self.look()
            except Exception:
                # Any error: drains that are never applied again are worse than one failed exchange.
                log.exception("exchanging with the store what is known of replicas")
                due = loop.time() + SYNC_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._announced.wait()

    def announced(self) -> None:
        """Let `run` look at the registrations now: some have changed."""
        self._announced.set()

    async def look(self) -> None:
        """Look at the registrations alone."""
        if self._finder is not None and self._finder.wants_registrations:
            # Where the store is away, the next exchange says so.
            with contextlib.suppress(StoreUnavailable):
                self._finder.registered(await registered(self._storage))

    async def exchange(self) -> None:
        """Exchange once."""
        try:
            now = await self._reporter.report(self._statuses())
            drains = drains_of(await self._storage.hgetall(DRAINS))
            if self._more_drains is not None:
                drains += await self._more_drains(self._storage)
            wanted = self._finder is not None and self._finder.wants_registrations
            replicas = await registered(self._storage) if wanted else []
        except StoreUnavailable as error:
            if not self._away:
                log.warning("drained and registered replicas stay as they are: %s", error.__cause__ or error)
            self._away = True
            if self._drains:
                # A replica that left and came back meanwhile is still drained.
                self.apply_drains()
            return
        self._away = False
        self._drains, self._offset = drains, self._clock() - now
        if self._finder is not None and wanted:
            self._finder.registered(replicas)
        self.apply_drains()

    def apply_drains(self, models: Collection[str] | None = None) -> None:
        """Apply the drains to the current replicas of these models, or of all; call it whenever the replicas change."""
        until: dict[str, dict[str, float]] = {model: {} for model in self._fleets}
        # This takes a while for a large fleet, and mostly nothing is drained.
        found = found_replicas([self._statuses()]) if self._drains else ()
        replicas = list(configured_replicas(self._config, found)) if self._drains else []
        for (model, replica_id), end in grace_ends(self._drains, replicas).items():
            until[model][replica_id] = end + self._offset
        for model, fleet in self._fleets.items():
            if models is None or model in models:
                fleet.drain(until[model])

    def _statuses(self) -> dict[str, Sequence[ReplicaStatus]]:
        return {model: fleet.statuses() for model, fleet in self._fleets.items()}
