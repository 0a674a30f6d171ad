"""Turns of the workers that copy requests: in each second one of them may have all the room that copies have."""

import time
from collections.abc import Callable
from typing import Final, cast

from gateway.store.lua_script import Script
from gateway.tenancy.tenants.transactions import Storage

#: Seconds of a turn.
TURN_SECONDS: Final = 1.0
#: Seconds after which a worker that has not enrolled again has no turn any more.
ENROLLED_SECONDS: Final = 5.0
_WORKERS: Final = "penstock:{rollouts}:shadow:workers"
# A worker's turn follows from its place by name, so that all workers come to the same order.
_ENROL: Final = Script("""
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
redis.call('HSET', KEYS[1], ARGV[1], tostring(now))
local found = redis.call('HGETALL', KEYS[1])
local count, before = 0, 0
for i = 1, #found, 2 do
  if now - tonumber(found[i + 1]) > tonumber(ARGV[2]) then
    redis.call('HDEL', KEYS[1], found[i])
  else
    count = count + 1
    if found[i] < ARGV[1] then before = before + 1 end
  end
end
redis.call('EXPIRE', KEYS[1], 60)
return {tostring(now), count, before}
""")


class ShadowTurns:
    """The turns of one worker, by the store's clock. A worker that is not enrolled has no turn."""

    def __init__(
        self, storage: Storage, worker: str, workers: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`workers` are taken to be so many until it is known how many copy requests."""
        self._storage = storage
        self._worker = worker
        self._clock = clock
        self.workers = workers
        self._place = 0
        #: From this worker's clock to the store's, and the end of what is known, by this worker's.
        self._offset = 0.0
        self._until = 0.0

    async def enrol(self) -> None:
        """Tell the store that this worker copies requests; it is to be told again each second. Raises
        StoreUnavailable.
        """
        arguments = [self._worker, str(ENROLLED_SECONDS)]
        now, count, before = cast("tuple[bytes, int, int]", await self._storage.run(_ENROL, [_WORKERS], arguments))
        heard = self._clock()
        self.workers, self._place = count, before
        self._offset, self._until = float(now) - heard, heard + ENROLLED_SECONDS

    @property
    def is_due(self) -> bool:
        """Whether it is this worker's turn."""
        now = self._clock()
        return now < self._until and int((now + self._offset) / TURN_SECONDS) % self.workers == self._place
