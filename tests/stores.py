"""What tests look up in a store, and when a limits batcher to it has nothing left to do."""

import contextlib
from collections.abc import AsyncIterator
from typing import cast

from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from gateway.tenancy.limits.limits_batcher import LimitsBatcher

GET = Script("return redis.call('GET', KEYS[1])")


@contextlib.asynccontextmanager
async def running(url: str, *, timeout: float = 10.0) -> AsyncIterator[Store]:
    """A store's client, closed at the end."""
    store = Store(url, timeout=timeout)
    try:
        yield store
    finally:
        await store.aclose()


async def value_of(store: Store, key: str) -> bytes | None:
    """The value of a key, or None."""
    return cast("bytes | None", await store.run(GET, [key], []))


def is_idle(limits_batcher: LimitsBatcher) -> bool:
    """Whether everything that the limits batcher was given has been delivered."""
    return not limits_batcher._queues and not limits_batcher._backlog and not limits_batcher._round_trip.locked()
