"""Knative's pod autoscaler (KPA) on concurrency, with Knative's defaults.

Taken from Knative's documentation and the project's notes on its law: a stable window of 60 s; a panic window of 10
% of it; panic when the panic window's desired count is at least 200 % of what is ready, with no scale-down until a
stable window has passed without reason for panic; desired = ceil(mean concurrency / (target * 70 %)); up by at most
1000 times, down by at most half in a round of 2 s. The target is the requests that one replica has in flight at its
goodput; what waits in the gateway counts, as in Knative's activator.
"""

from math import ceil, floor
from typing import Final

from loadtest.simulation.scalers.benchmark import Benchmark
from loadtest.simulation.scalers.one_pool import Window
from replicas.controller.snapshot import Demand, PoolSnapshot

STABLE_SECONDS: Final = 60.0
PANIC_PART, PANIC_THRESHOLD = 0.1, 2.0
UTILISATION: Final = 0.7
MOST_UP, MOST_DOWN = 1000.0, 2.0


class Kpa:
    """The law."""

    def __init__(self, benchmark: Benchmark) -> None:
        self._target = UTILISATION * benchmark.in_flight
        self._stable, self._short = Window(STABLE_SECONDS), Window(STABLE_SECONDS * PANIC_PART)
        self._panic_until = float("-inf")
        self._panic_count = 0

    def wants(self, now: float, wanted: int, demand: Demand, pool: PoolSnapshot) -> int:
        """Return the stable count, or in panic the highest of both since it began."""
        concurrency = demand.in_flight + demand.waiting
        self._stable.add(now, concurrency)
        self._short.add(now, concurrency)
        ready = max(pool.ready, 1)
        stable, panic = self._count(self._stable.mean, ready), self._count(self._short.mean, ready)
        if panic >= PANIC_THRESHOLD * ready:
            self._panic_until = now + STABLE_SECONDS
        if now < self._panic_until:
            self._panic_count = max(self._panic_count, wanted, stable, panic)
            return self._panic_count
        self._panic_count = 0
        return stable

    def _count(self, concurrency: float, ready: int) -> int:
        desired = ceil(concurrency / self._target)
        return min(max(desired, floor(ready / MOST_DOWN)), ceil(ready * MOST_UP))
