"""llm-d: its recommended SLO law of KEDA and the endpoint picker, and its workload variant autoscaler v1.

Taken from llm-d's documentation. KEDA and EPP: s = mean over 45 s of min(max(p90 TTFT / S1, p90 TPOT / S2), 2.0); up
when s > 0.55: n + ceil(n (s c / 0.55 - 1)) with c = ready / provisioned; down when s < 0.40: n - floor(n (1 - s /
0.40)); HPA allows up max(100 %, 4) in 60 s after a window of 30 s, down 1 in 120 s after a window of 180 s. The
snapshot has p95 in place of p90. The second trigger beside it in llm-d's example, KV use over 0.8, is applied, too.

WVA v1: a replica is saturated at KV use 0.80 or a queue of 5; spare = threshold - use, averaged over replicas that
are not saturated; up one when spare KV < 0.10 or spare queue < 3; down one only if after the load is spread over one
less both still hold; nothing while a replica is starting; peaks of one minute. All replicas of a pool are alike
here, so that the averages stand for each.
"""

from math import ceil, floor
from typing import Final

from loadtest.simulation.scalers.one_pool import Window
from replicas.controller.snapshot import Demand, PoolSnapshot

MEAN_SECONDS, MOST_RATIO = 45.0, 2.0
UP, DOWN = 0.55, 0.40
UP_WINDOW, DOWN_WINDOW = 30.0, 180.0
UP_SECONDS, UP_FACTOR, UP_PODS = 60.0, 2.0, 4
DOWN_SECONDS: Final = 120.0
KV_MOST: Final = 0.8


class LlmdSlo:
    """The law of KEDA and the endpoint picker."""

    def __init__(self) -> None:
        self._ratio = Window(MEAN_SECONDS)
        self._ups, self._downs = Window(UP_WINDOW), Window(DOWN_WINDOW)
        self._began = float("-inf")
        self._base = 0
        self._lowered = float("-inf")

    def wants(self, now: float, wanted: int, demand: Demand, pool: PoolSnapshot) -> int:
        """Return the count that the ratio asks for, as fast as the behaviour lets it."""
        self._ratio.add(now, min(max(demand.ttft_ratio, demand.tpot_ratio), MOST_RATIO))
        desired = max(self._by_ratio(wanted, pool), ceil(pool.kv_used * pool.ready / KV_MOST))
        self._ups.add(now, desired)
        self._downs.add(now, desired)
        if now - self._began >= UP_SECONDS:
            self._began, self._base = now, wanted
        up, down = round(self._ups.least), round(self._downs.most)
        if up > wanted:
            return max(wanted, min(up, max(ceil(self._base * UP_FACTOR), self._base + UP_PODS)))
        if down < wanted and now - self._lowered >= DOWN_SECONDS:
            self._lowered = now
            return wanted - 1
        return wanted

    def _by_ratio(self, count: int, pool: PoolSnapshot) -> int:
        ratio = self._ratio.mean
        if ratio > UP:
            serving = pool.ready / max(pool.ready + len(pool.starting), 1)
            return count + max(0, ceil(count * (ratio * serving / UP - 1)))
        if ratio < DOWN:
            return count - floor(count * (1 - ratio / DOWN))
        return count


KV_THRESHOLD, QUEUE_THRESHOLD = 0.80, 5.0
SPARE_KV, SPARE_QUEUE = 0.10, 3.0
PEAK_SECONDS: Final = 60.0
WVA_SECONDS: Final = 30.0


class WvaV1:
    """The law of the workload variant autoscaler."""

    def __init__(self) -> None:
        self._kv, self._queue = Window(PEAK_SECONDS), Window(PEAK_SECONDS)
        self._next = 0.0

    def wants(self, now: float, wanted: int, demand: Demand, pool: PoolSnapshot) -> int:
        """Return one more, one less, or as many."""
        ready = max(pool.ready, 1)
        self._kv.add(now, pool.kv_used)
        self._queue.add(now, (pool.waiting + demand.waiting) / ready)
        if now < self._next or pool.starting:
            return wanted
        self._next = now + WVA_SECONDS
        kv, queue = self._kv.most, self._queue.most
        if not self._spare(kv, queue):
            return wanted + 1
        if pool.ready >= 2 and self._spare(kv * ready / (ready - 1), queue * ready / (ready - 1)):
            return wanted - 1
        return wanted

    def _spare(self, kv: float, queue: float) -> bool:
        return KV_THRESHOLD - kv >= SPARE_KV and QUEUE_THRESHOLD - queue >= SPARE_QUEUE
