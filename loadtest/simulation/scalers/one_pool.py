"""What the rivals' laws share: one pool, whose count is bounded, and a decision that names the law."""

from collections import deque
from typing import Protocol

from replicas.controller.decision import Decision, PoolDecision
from replicas.controller.scaling_settings import PoolScaling
from replicas.controller.snapshot import Demand, PoolSnapshot, Snapshot


class Law(Protocol):
    """A law of scaling for one pool."""

    def wants(self, now: float, wanted: int, demand: Demand, pool: PoolSnapshot) -> int:
        """Return the replicas that it wants; `wanted` were wanted so far."""
        ...


class OnePool:
    """A scaler of one pool by a law."""

    def __init__(self, name: str, pool: PoolScaling, law: Law) -> None:
        self._name, self._pool, self._law = name, pool, law
        self._wanted: int | None = None

    def decide(self, snapshot: Snapshot) -> Decision:
        """Return what the law wants, within the pool's bounds."""
        pool = snapshot.pools[self._pool.name]
        before = self._wanted if self._wanted is not None else pool.ready + len(pool.starting)
        needed = self._law.wants(snapshot.now, before, snapshot.demand, pool)
        self._wanted = min(max(needed, self._pool.min), self._pool.max)
        return Decision(
            at=snapshot.now,
            pools={self._pool.name: PoolDecision(wanted=self._wanted, needed=needed, reason=self._name)},
            cost=None,
            inputs={},
            reasons=[self._name],
        )


class Window:
    """Values of the last `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._values: deque[tuple[float, float]] = deque()

    def add(self, now: float, value: float) -> None:
        """Add a value, and drop the old ones."""
        self._values.append((now, value))
        while self._values[0][0] <= now - self._seconds:
            self._values.popleft()

    @property
    def mean(self) -> float:
        """The mean; 0 without values."""
        return sum(value for _, value in self._values) / len(self._values) if self._values else 0.0

    @property
    def most(self) -> float:
        """The highest; 0 without values."""
        return max((value for _, value in self._values), default=0.0)

    @property
    def least(self) -> float:
        """The lowest; 0 without values."""
        return min((value for _, value in self._values), default=0.0)
