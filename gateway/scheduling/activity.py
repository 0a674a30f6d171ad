"""Which tenants are active, as the workers tell each other through the store."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, cast

import msgspec

from gateway.scheduling.shares import ActiveTenant
from gateway.store.lua_script import Script
from gateway.store.store import Store
from protos.errors import StoreUnavailable

log = logging.getLogger(__name__)

#: How often a worker tells, and for how long what it told is good. It tells of a tenant as long as that is active.
SYNC_SECONDS: Final = 0.5
NOTE_SECONDS: Final = 2.0
#: Tenants of one model that workers tell each other of, those seen last.
MAX_TENANTS: Final = 1024
_EXCHANGE: Final = Script.load("gateway.scheduling", "activity.lua")


class Shared(Protocol):
    """What is told of a admission queue, and to it."""

    active_elsewhere: Sequence[ActiveTenant]

    def active_here(self) -> list[ActiveTenant]:
        """The tenants that are active in this worker."""
        ...


class Activity:
    """Tells the other workers of this one's active tenants, and the admission queues of the others'.

    While the store is away a worker goes by what it sees itself.
    """

    def __init__(self, store: Store, admission_queues: Mapping[str, Shared]) -> None:
        """`admission queues` are this worker's, by model."""
        self._store = store
        self._admission_queues = admission_queues
        self._decoder = msgspec.msgpack.Decoder(ActiveTenant)
        self._away = False

    async def run(self) -> None:
        """Exchange for ever."""
        while True:
            await self.exchange()
            await asyncio.sleep(SYNC_SECONDS)

    async def exchange(self) -> None:
        """One round for each model."""
        for model, admission_queue in self._admission_queues.items():
            mine = [msgspec.msgpack.encode(tenant) for tenant in admission_queue.active_here()]
            try:
                reply = await self._store.run(
                    _EXCHANGE, [f"penstock:{{active}}:{model}"], [str(NOTE_SECONDS), str(MAX_TENANTS), *mine]
                )
            except StoreUnavailable:
                admission_queue.active_elsewhere = ()
                if not self._away:
                    log.warning("the store does not answer: shares are worked out from this worker's tenants alone")
                self._away = True
                continue
            self._away = False
            # A tenant whose tier or load has changed is there several times, the newest last.
            admission_queue.active_elsewhere = [self._decoder.decode(note) for note in cast("list[bytes]", reply)]
