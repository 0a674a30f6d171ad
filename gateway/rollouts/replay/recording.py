"""A recording of live requests: what a command asks workers for, and what they hand in, by way of the store.

There is one at a time. It lives for as long as its command renews it; what workers have handed in and nobody has taken
is bounded, and goes with it.
"""

from collections.abc import Sequence
from typing import Final, cast

import msgspec

from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from gateway.store.unreadable import UNREADABLE

_PREFIX: Final = "penstock:{rollouts}:recording"
#: A string: the `Recording` that runs, as JSON.
_RUNNING: Final = _PREFIX
#: A list: lines of a corpus that no command has taken yet.
_LINES: Final = f"{_PREFIX}:lines"
#: Seconds that a recording goes on without its command, and how often a worker looks and a command renews.
LIVES_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 1.0
#: Lines and bytes that wait at most; more are left out.
MOST_LINES: Final = 1000
MOST_LINE_BYTES: Final = 1 << 20

_RENEW: Final = Script("""
local running = redis.call('GET', KEYS[1])
if running and running ~= ARGV[1] then return 0 end
if not running then redis.call('DEL', KEYS[2]) end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
""")
_END: Final = Script("""
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1], KEYS[2]) end
return 1
""")
_LOOK: Final = Script("return redis.call('GET', KEYS[1]) or ''")
_HAND_IN: Final = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local room = tonumber(ARGV[2]) - redis.call('LLEN', KEYS[2])
for i = 4, math.min(#ARGV, 3 + room) do redis.call('RPUSH', KEYS[2], ARGV[i]) end
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return math.max(0, math.min(#ARGV - 3, room))
""")
_TAKE: Final = Script("""
local lines = redis.call('LRANGE', KEYS[2], 0, ARGV[1] - 1)
redis.call('LTRIM', KEYS[2], #lines, -1)
return lines
""")
_KEYS: Final = (_RUNNING, _LINES)


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """An order to record a `share` of the requests to a model, of tenants that allow it."""

    id: str
    model: str
    share: float


class Recordings:
    """The recording of a store, for workers and for the command. Every method raises StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def renew(self, recording: Recording) -> bool:
        """Begin a recording, or keep it going; False while another one runs."""
        arguments = (msgspec.json.encode(recording), _milliseconds())
        return bool(await self._store.run(_RENEW, _KEYS, arguments))

    async def end(self, recording: Recording) -> None:
        """End it, with what nobody has taken."""
        await self._store.run(_END, _KEYS, (msgspec.json.encode(recording),))

    async def running(self) -> Recording | None:
        """Return what is to be recorded now; None: nothing, or nothing that this version knows."""
        found = cast("bytes", await self._store.run(_LOOK, _KEYS, ()))
        try:
            return msgspec.json.decode(found, type=Recording) if found else None
        except UNREADABLE:
            return None

    async def hand_in(self, recording: Recording, lines: Sequence[bytes]) -> int:
        """Hand lines in; returns how many there was room for, none if the recording has ended."""
        arguments: list[str | bytes] = [msgspec.json.encode(recording), str(MOST_LINES), _milliseconds(), *lines]
        return cast("int", await self._store.run(_HAND_IN, _KEYS, arguments))

    async def take(self, most: int) -> list[bytes]:
        """Take lines away, the oldest first."""
        return cast("list[bytes]", await self._store.run(_TAKE, _KEYS, (str(most),)))


def _milliseconds() -> str:
    return str(int(LIVES_SECONDS * 1000))
