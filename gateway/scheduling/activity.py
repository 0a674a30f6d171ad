"""Exchange of active tenants between workers through the store."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, cast

import msgspec

from gateway.scheduling.shares import ActiveTenant
from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from protos.errors import StoreUnavailable

log = logging.getLogger(__name__)

#: Seconds between two exchanges, and seconds for which a reported tenant counts.
SYNC_SECONDS: Final = 0.5
NOTE_SECONDS: Final = 2.0
#: Active tenants of one model in the store at most; the most recent ones stay.
MAX_TENANTS: Final = 1024
_EXCHANGE: Final = Script.load("gateway.scheduling", "activity.lua")


class SharedQueue(Protocol):
    """The part of an admission queue that is exchanged."""

    active_elsewhere: Sequence[ActiveTenant]

    def active_here(self) -> list[ActiveTenant]: ...


class Activity:
    """Reports this worker's active tenants to the store, and the other workers' tenants to the admission queues.

    While the store is away a worker goes by what it sees itself.
    """

    def __init__(self, store: Store, admission_queues: Mapping[str, SharedQueue]) -> None:
        """`admission_queues` are this worker's, by model."""
        self._store = store
        self._admission_queues = admission_queues
        self._decoder = msgspec.msgpack.Decoder(ActiveTenant)
        self._away = False

    async def run(self) -> None:
        """Exchange every SYNC_SECONDS until cancelled."""
        while True:
            await self.exchange()
            await asyncio.sleep(SYNC_SECONDS)

    async def exchange(self) -> None:
        """Exchange once for each model."""
        for model, admission_queue in self._admission_queues.items():
            records = [msgspec.msgpack.encode(tenant) for tenant in admission_queue.active_here()]
            try:
                reply = await self._store.run(
                    _EXCHANGE, [f"penstock:{{active}}:{model}"], [str(NOTE_SECONDS), str(MAX_TENANTS), *records]
                )
            except StoreUnavailable:
                admission_queue.active_elsewhere = ()
                if not self._away:
                    log.warning("the store does not answer: shares are worked out from this worker's tenants alone")
                self._away = True
                continue
            self._away = False
            # A tenant whose tier or load has changed occurs several times, the newest last.
            admission_queue.active_elsewhere = [self._decoder.decode(record) for record in cast("list[bytes]", reply)]
