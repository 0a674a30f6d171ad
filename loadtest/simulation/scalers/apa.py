"""AIBrix's pod autoscaler (APA).

Taken from AIBrix's documentation: the ratio of a pod's use to its target; within 10 % nothing, else ceil(n * ratio),
clamped to half and to twice of n; no cooldown up, 300 s down. Use is the requests in flight over those that one
replica has at its goodput, in the mean of a minute.
"""

from math import ceil, floor
from typing import Final

from loadtest.simulation.scalers.benchmark import Benchmark
from loadtest.simulation.scalers.one_pool import Window
from replicas.controller.snapshot import Demand, PoolSnapshot

WINDOW_SECONDS: Final = 60.0
TOLERANCE: Final = 0.1
DOWN_COOLDOWN_SECONDS: Final = 300.0


class Apa:
    """The law."""

    def __init__(self, benchmark: Benchmark) -> None:
        self._target = benchmark.in_flight
        self._use = Window(WINDOW_SECONDS)
        self._changed = float("-inf")

    def wants(self, now: float, wanted: int, demand: Demand, pool: PoolSnapshot) -> int:
        """Return the count for the mean use."""
        self._use.add(now, demand.in_flight + demand.waiting)
        ready = max(pool.ready, 1)
        ratio = self._use.mean / ready / self._target
        if abs(ratio - 1) <= TOLERANCE:
            return wanted
        desired = min(max(ceil(ready * ratio), floor(ready / 2)), 2 * ready)
        if desired < wanted and now - self._changed < DOWN_COOLDOWN_SECONDS:
            return wanted
        if desired != wanted:
            self._changed = now
        return desired
