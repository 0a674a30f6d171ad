"""What tests look up in a store, and when a limits batcher to it has nothing left to do."""

from typing import cast

from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from gateway.tenancy.limits.limits_batcher import LimitsBatcher

GET = Script("return redis.call('GET', KEYS[1])")


async def value_of(store: Store, key: str) -> bytes | None:
    """The value of a key, or None."""
    return cast("bytes | None", await store.run(GET, [key], []))


def is_idle(limits_batcher: LimitsBatcher) -> bool:
    """Whether everything that the limits batcher was given has been delivered."""
    return not limits_batcher._queues and not limits_batcher._backlog and not limits_batcher._round_trip.locked()
