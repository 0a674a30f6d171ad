"""A pool's replicas as decisions count them."""

import msgspec

from replicas.controller.memory import Memory
from replicas.controller.scaling_settings import ModelScaling, PoolScaling
from replicas.controller.snapshot import PoolSnapshot, Snapshot

#: A start that takes this many times as long as others, and so many seconds, is not counted on any longer: one from a
#: process in wait takes seconds, and the next one, without that, a minute.
_STUCK = 3.0
_LEAST_STUCK_SECONDS = 60.0
_STARTUP_RATE = 0.3


class PoolState(msgspec.Struct, frozen=True, kw_only=True):
    """A pool's settings with its replicas now. `coming` are starting ones that are counted on, `stuck` those that are
    not.

    `seen` is false where the snapshot lacks the pool: then what was wanted last is taken for what runs. The bounds of a
    fixed pool are what is ready.
    """

    settings: PoolScaling
    snapshot: PoolSnapshot
    startup: float
    ready: int
    coming: int
    stuck: int
    seen: bool
    decided: int | None
    reserve: int

    @property
    def counted(self) -> int:
        """Replicas that serve or soon will: those that were decided on, which others start and stop until it is so.

        Before the first decision, and where none can be started, it is those that are there.
        """
        if self.decided is None:
            return self.present
        return min(self.present, self.decided) if self.snapshot.unavailable else self.decided

    @property
    def present(self) -> int:
        """Replicas that are there or are starting, without the reserve."""
        there = self.ready + self.coming
        return max(there - self.reserve, min(there, self.settings.min))

    @property
    def most(self) -> int:
        """Replicas that it can have: no more than now while its launcher cannot start any."""
        most = self.settings.max - self.stuck
        if self.snapshot.unavailable:
            most = min(most, self.present)
        return max(most, min(self.settings.min, self.settings.max), 0)


def pool_states(scaling: ModelScaling, snapshot: Snapshot, memory: Memory) -> dict[str, PoolState]:
    """Return the state of each pool of a model."""
    last = memory.wanted[-1].counts if memory.wanted else {}
    states = {}
    for pool in scaling.pools:
        seen = snapshot.pools.get(pool.name)
        now = seen or PoolSnapshot(ready=max(last.get(pool.name, pool.min), pool.min))
        startup = now.startup_seconds or memory.startup.get(pool.name) or pool.startup_seconds
        stuck = sum(age > stuck_seconds(startup) for age in now.starting)
        ready = max(now.ready, 0)
        states[pool.name] = PoolState(
            settings=msgspec.structs.replace(pool, min=ready, max=ready) if pool.fixed else pool,
            snapshot=now,
            # Nothing is ever waited for there.
            startup=0.0 if pool.fixed else startup,
            ready=ready,
            coming=len(now.starting) - stuck,
            stuck=stuck,
            seen=seen is not None,
            decided=memory.decided.get(pool.name),
            reserve=memory.reserve.get(pool.name, 0),
        )
    return states


def stuck_seconds(startup: float) -> float:
    """Return after how many seconds a start is not counted on any longer where others take `startup`."""
    return max(_STUCK * startup, _LEAST_STUCK_SECONDS)


def learned_startups(memory: Memory, snapshot: Snapshot) -> tuple[dict[str, float], dict[str, float]]:
    """Return start-up times by pool, and the ages of the oldest starts, after what the snapshot shows.

    A start has ended well where fewer are starting and more are ready; it then took about what the oldest had taken.
    """
    startup, oldest = dict(memory.startup), {}
    for name, pool in snapshot.pools.items():
        if pool.starting:
            oldest[name] = max(pool.starting)
        before = memory.oldest_start.get(name)
        newest_before = oldest.get(name, 0.0)
        if before is not None and newest_before < before and pool.ready > memory.ready.get(name, pool.ready):
            known = startup.get(name)
            startup[name] = before if known is None else known + _STARTUP_RATE * (before - known)
    return startup, oldest
