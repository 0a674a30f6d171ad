"""Exchange of active tenants between workers through the store."""

import asyncio
import logging
from collections.abc import Mapping, Sequence, Set
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
#: Models in one call at most: it keeps the store from everything else.
MAX_MODELS: Final = 64
# One hash tag for all keys, which one script touches.
_MODELS: Final = "penstock:{active}"
_EXCHANGE: Final = Script.load("gateway.scheduling", "activity.lua")
_Records = list[bytes]


class SharedQueue(Protocol):
    """The part of an admission queue that is exchanged."""

    active_elsewhere: Sequence[ActiveTenant]

    def active_here(self) -> list[ActiveTenant]: ...


class Activity:
    """Reports this worker's active tenants to the store, and the other workers' tenants to the admission queues.

    While the store is away a worker goes by what it sees itself. One call is of all models that are active anywhere.
    """

    def __init__(self, store: Store, admission_queues: Mapping[str, SharedQueue]) -> None:
        """`admission_queues` are this worker's, by model."""
        self._store = store
        self._admission_queues = admission_queues
        self._decoder = msgspec.msgpack.Decoder(ActiveTenant)
        self._away = False
        #: The models that were active in any worker at the last exchange.
        self._active: set[str] = set()

    async def run(self) -> None:
        """Exchange every SYNC_SECONDS until cancelled."""
        while True:
            await self.exchange()
            await asyncio.sleep(SYNC_SECONDS)

    async def exchange(self) -> None:
        """Exchange once for each active model."""
        here = {model: tenants for model, queue in self._admission_queues.items() if (tenants := queue.active_here())}
        known = here.keys() | self._active
        try:
            active = await self._share(known, here)
            # Those that have become active elsewhere since the last exchange.
            active |= await self._share(active - known, {}) if active - known else set()
        except StoreUnavailable:
            for model in known:
                self._admission_queues[model].active_elsewhere = ()
            self._active = set()
            if not self._away:
                log.warning("the store does not answer: shares are worked out from this worker's tenants alone")
            self._away = True
            return
        self._away = False
        self._active = active

    async def _share(self, models: Set[str], here: Mapping[str, Sequence[ActiveTenant]]) -> set[str]:
        """Note the tenants here and read all of these models; return this worker's models that are active anywhere."""
        active: set[str] = set()
        ordered = sorted(models)
        for start in range(0, max(1, len(ordered)), MAX_MODELS):
            part = ordered[start : start + MAX_MODELS]
            arguments: list[str | bytes] = [str(NOTE_SECONDS), str(MAX_TENANTS)]
            for model in part:
                records = [msgspec.msgpack.encode(tenant) for tenant in here.get(model, ())]
                arguments += (model, str(len(records)), *records)
            keys = [_MODELS, *(f"{_MODELS}:{model}" for model in part)]
            names, *found = cast("list[_Records]", await self._store.run(_EXCHANGE, keys, arguments))
            active.update(map(bytes.decode, names))
            for model, of_model in zip(part, found, strict=True):
                if of_model:
                    active.add(model)
                # A tenant whose tier or load has changed occurs several times, the newest last.
                self._admission_queues[model].active_elsewhere = [self._decoder.decode(record) for record in of_model]
        return active & self._admission_queues.keys()
