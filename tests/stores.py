"""What tests look up in a store, and when a courier to it has nothing left to do."""

from typing import cast

from gateway.store.lua_script import Script
from gateway.store.store import Store
from gateway.tenancy.limits.limits_batcher import Courier

GET = Script("return redis.call('GET', KEYS[1])")


async def value_of(store: Store, key: str) -> bytes | None:
    """The value of a key, or None."""
    return cast("bytes | None", await store.run(GET, [key], []))


def is_idle(courier: Courier) -> bool:
    """Whether everything that the courier was given has been delivered."""
    return not courier._queues and not courier._backlog and not courier._trip.locked()
