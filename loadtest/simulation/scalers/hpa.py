"""Kubernetes' Horizontal Pod Autoscaler on requests in flight per pod, which is what users of KEDA and HPA configure.

Taken from Kubernetes' documentation ("Horizontal Pod Autoscaling", algorithm details and default behaviour):
desired = ceil(current * metric / target), nothing within a tolerance of 10 %, a round every 15 s; up by at most the larger of
100 % and 4 pods in 15 s, without a stabilisation window; down to the highest desired count of the last 300 s, by at most 100 %
in 15 s. Pods that are not ready count with a metric of 0 when it would go up. The target is 80 % of the requests that one
replica has in flight at its goodput; the metric includes those that wait in the gateway.
"""

from collections import deque
from math import ceil
from typing import Final

from loadtest.simulation.scalers.benchmark import Benchmark
from replicas.controller.decision import Decision, PoolDecision
from replicas.controller.scaling_settings import PoolScaling
from replicas.controller.snapshot import Snapshot

SYNC_SECONDS: Final = 15.0
TOLERANCE: Final = 0.1
UP_FACTOR, UP_PODS = 2.0, 4
DOWN_SECONDS: Final = 300.0
TARGET: Final = 0.8


class Hpa:
    """Scales one pool."""

    def __init__(self, pool: PoolScaling, benchmark: Benchmark) -> None:
        self._pool = pool
        self._target = TARGET * benchmark.in_flight
        self._wanted: int | None = None
        self._next = 0.0
        self._desired: deque[tuple[float, int]] = deque()

    def decide(self, snapshot: Snapshot) -> Decision:
        """Return the count of the last round, or of a new one when it is due."""
        pool = snapshot.pools[self._pool.name]
        current = self._wanted if self._wanted is not None else pool.ready + len(pool.starting)
        if snapshot.now >= self._next:
            self._next = snapshot.now + SYNC_SECONDS
            current = self._round(snapshot, current)
        self._wanted = min(max(current, self._pool.min), self._pool.max)
        return Decision(
            at=snapshot.now,
            pools={self._pool.name: PoolDecision(wanted=self._wanted, reason="in flight per pod")},
            cost=None,
            inputs={},
            reasons=["in flight per pod"],
        )

    def _round(self, snapshot: Snapshot, current: int) -> int:
        demand, ready = snapshot.demand, snapshot.pools[self._pool.name].ready
        total = demand.in_flight + demand.waiting
        desired = current
        if ready:
            ratio = total / ready / self._target
            if ratio > 1 + TOLERANCE:
                # Pods that are not ready count with 0, which may turn the direction: then nothing happens.
                ratio = total / max(current, 1) / self._target
                desired = max(current, ceil(current * ratio)) if ratio > 1 + TOLERANCE else current
            elif ratio < 1 - TOLERANCE:
                desired = ceil(ready * ratio)
        elif total:
            desired = max(current, 1)
        now = snapshot.now
        self._desired.append((now, desired))
        while self._desired[0][0] < now - DOWN_SECONDS:
            self._desired.popleft()
        if desired > current:
            return min(desired, max(ceil(current * UP_FACTOR), current + UP_PODS))
        return min(current, max(count for _, count in self._desired))
