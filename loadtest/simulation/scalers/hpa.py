"""Kubernetes' Horizontal Pod Autoscaler on requests in flight per pod, which is what users of KEDA and HPA configure.

Taken from Kubernetes' documentation ("Horizontal Pod Autoscaling": algorithm details, configurable scaling
behaviour): desired = ceil(current * metric / target), nothing within a tolerance of 10 %, a round every 15 s; up by
at most the larger of 100 % and 4 pods in 15 s, without a stabilisation window; down to the highest desired count of
the last 300 s. Pods that are not ready count with a metric of 0 when it would go up. The target is 80 % of the
requests that one replica has in flight at its goodput; the metric includes those that wait in the gateway.
"""

from math import ceil
from typing import Final

from loadtest.simulation.scalers.benchmark import Benchmark
from loadtest.simulation.scalers.one_pool import Window
from replicas.controller.snapshot import Demand, PoolSnapshot

SYNC_SECONDS: Final = 15.0
TOLERANCE: Final = 0.1
UP_FACTOR, UP_PODS = 2.0, 4
DOWN_SECONDS: Final = 300.0
TARGET: Final = 0.8


class Hpa:
    """The law."""

    def __init__(self, benchmark: Benchmark) -> None:
        self._target = TARGET * benchmark.in_flight
        self._next = 0.0
        self._desired = Window(DOWN_SECONDS)

    def wants(self, now: float, wanted: int, demand: Demand, pool: PoolSnapshot) -> int:
        """Return the count of the last round, or of a new one when it is due."""
        if now < self._next:
            return wanted
        self._next = now + SYNC_SECONDS
        desired = self._desired_count(wanted, demand.in_flight + demand.waiting, pool.ready)
        self._desired.add(now, desired)
        if desired > wanted:
            return min(desired, max(ceil(wanted * UP_FACTOR), wanted + UP_PODS))
        return min(wanted, round(self._desired.most))

    def _desired_count(self, current: int, total: int, ready: int) -> int:
        if not ready:
            return max(current, 1) if total else current
        ratio = total / ready / self._target
        if abs(ratio - 1) <= TOLERANCE:
            return current
        if ratio > 1:
            # Pods that are not ready count with 0; where that turns the direction, nothing happens.
            return (
                max(current, ceil(total / self._target)) if total / current / self._target > 1 + TOLERANCE else current
            )
        return ceil(ready * ratio)
