"""Runs of golden sets, in the store: asked for by the controller, taken by one worker at a time, and their results."""

from typing import Final, cast

import msgspec

from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from gateway.store.unreadable import UNREADABLE

_PREFIX: Final = "penstock:{rollouts}:golden:"
#: Seconds for which a run is wanted that nobody asks for again, and for which a silent worker has it.
WANTED_SECONDS: Final = 10.0
LEASE_SECONDS: Final = 5.0
#: Seconds between two looks of the controller and of workers.
LOOK_SECONDS: Final = 1.0
_KEPT_SECONDS: Final = 3600.0

# What another run has left is cleared.
_ASK: Final = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then redis.call('DEL', KEYS[2], KEYS[3]) end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('GET', KEYS[3]) or ''
""")
_TAKE: Final = Script("""
local wanted = redis.call('GET', KEYS[1])
if not wanted or redis.call('EXISTS', KEYS[3]) == 1 then return '' end
local holder = redis.call('GET', KEYS[2])
if holder and holder ~= ARGV[1] then return '' end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
return wanted
""")
_END: Final = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[3], ARGV[3], 'PX', ARGV[4])
return 1
""")


class GoldenJob(msgspec.Struct, frozen=True, kw_only=True):
    """A run: `corpus` is its file, `similar` and the other bounds are those of the rollout."""

    id: str
    model: str
    stable: str
    candidate: str
    corpus: str
    similar: float
    alike: float
    failed: float
    broken: float


class GoldenResult(msgspec.Struct, frozen=True):
    """The result of a golden set, in a sentence."""

    passed: bool
    reason: str


class GoldenJobs:
    """The runs of one store. Every method raises StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def ask(self, job: GoldenJob) -> GoldenResult | None:
        """Want a run, for a while; returns its result once there is one."""
        arguments = (msgspec.json.encode(job), _milliseconds(WANTED_SECONDS))
        found = cast("bytes", await self._store.run(_ASK, _keys(job.model), arguments))
        return msgspec.json.decode(found, type=GoldenResult) if found else None

    async def take(self, model: str, worker: str) -> GoldenJob | None:
        """Take a model's run, or keep it; None: none is wanted, or another worker has it."""
        arguments = (worker, _milliseconds(LEASE_SECONDS))
        found = cast("bytes", await self._store.run(_TAKE, _keys(model), arguments))
        try:
            return msgspec.json.decode(found, type=GoldenJob) if found else None
        except UNREADABLE:
            # Another version of the gateway wants it.
            return None

    async def end(self, job: GoldenJob, worker: str, result: GoldenResult) -> None:
        """Hand the result in, if the run is still wanted of this worker."""
        arguments = (msgspec.json.encode(job), worker, msgspec.json.encode(result), _milliseconds(_KEPT_SECONDS))
        await self._store.run(_END, _keys(job.model), arguments)


def _keys(model: str) -> tuple[str, str, str]:
    return f"{_PREFIX}wanted:{model}", f"{_PREFIX}holder:{model}", f"{_PREFIX}result:{model}"


def _milliseconds(seconds: float) -> str:
    return str(int(seconds * 1000))
