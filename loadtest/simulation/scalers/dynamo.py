"""NVIDIA Dynamo's planner for an aggregated pool: throughput every 180 s by a forecast, load every 5 s by one replica.

Taken from Dynamo's planner documentation as it is now. Throughput scaling: replicas = ceil(predicted requests per
second / those of an engine under the SLA), the floor of what load scaling may want. Load scaling: one more when
*all* engines miss the SLA; one less only if, at the load of N/(N-1), the estimate stays within 0.8 of the SLA and
the KV fits; nothing while a scaling is under way. An engine's estimate comes from a regression over its steps; here
it is the learned step model that the snapshot has, with the sequences that one engine runs. Rates are forecast by
its Kalman filter with a local linear trend (level noise 1.0, trend noise 0.1, observation noise 10, from 5 points
on), on intervals of 180 s.
"""

from collections.abc import Sequence
from math import ceil
from typing import Final

from loadtest.simulation.scalers.benchmark import Benchmark
from replicas.controller.scaling_settings import Slo
from replicas.controller.snapshot import Demand, PoolSnapshot

THROUGHPUT_SECONDS, LOAD_SECONDS = 180.0, 5.0
SENSITIVITY: Final = 0.8
KV_FITS: Final = 1.0
LEVEL_NOISE, TREND_NOISE, OBSERVATION_NOISE = 1.0, 0.1, 10.0
LEAST_POINTS: Final = 5


class Kalman:
    """A local linear trend: the state is a level and its growth in an interval."""

    def __init__(self) -> None:
        self._seen = 0
        self._level = self._trend = 0.0
        self._cov = [[10.0, 0.0], [0.0, 10.0]]

    def next(self, value: float) -> float:
        """Learn the interval's value and return what the next one is expected to have."""
        self._seen += 1
        if self._seen == 1:
            self._level = value
        (a, b), (c, d) = self._cov
        level = self._level + self._trend
        a, b, c, d = a + b + c + d + LEVEL_NOISE, b + d, c + d, d + TREND_NOISE
        gain_level, gain_trend = a / (a + OBSERVATION_NOISE), c / (a + OBSERVATION_NOISE)
        error = value - level
        self._level, self._trend = level + gain_level * error, self._trend + gain_trend * error
        self._cov = [
            [(1 - gain_level) * a, (1 - gain_level) * b],
            [c - gain_trend * a, d - gain_trend * b],
        ]
        return max(0.0, self._level + self._trend) if self._seen >= LEAST_POINTS else value


class Dynamo:
    """The law."""

    def __init__(self, benchmark: Benchmark, slo: Slo) -> None:
        self._rate, self._slo = benchmark.rate, slo
        self._forecast = Kalman()
        self._next_throughput, self._next_load = THROUGHPUT_SECONDS, 0.0
        self._rates: list[float] = []
        self._floor = 0

    def wants(self, now: float, wanted: int, demand: Demand, pool: PoolSnapshot) -> int:
        """Return the larger of what both parts want."""
        self._rates.append(demand.requests_per_second)
        if now >= self._next_throughput:
            self._next_throughput = now + THROUGHPUT_SECONDS
            self._floor = ceil(self._forecast.next(_mean(self._rates)) / self._rate)
            self._rates.clear()
        count = wanted
        if now >= self._next_load and not pool.starting and not pool.stopping:
            self._next_load = now + LOAD_SECONDS
            count += self._step(demand, pool)
        return max(count, self._floor)

    def _step(self, demand: Demand, pool: PoolSnapshot) -> int:
        """Return by how many replicas load scaling changes the count."""
        if not pool.ready or pool.step_times is None or not demand.output_tokens:
            return 0
        first, pace = self._estimates(demand, pool, 1.0)
        if first > self._slo.first_token(demand.prompt_tokens) or pace > self._slo.tpot:
            return 1
        if pool.ready < 2:
            return 0
        spread = pool.ready / (pool.ready - 1)
        first, pace = self._estimates(demand, pool, spread)
        fits = pool.kv_used * spread < KV_FITS
        if fits and first <= SENSITIVITY * self._slo.first_token(demand.prompt_tokens):
            return -1 if pace <= SENSITIVITY * self._slo.tpot else 0
        return 0

    def _estimates(self, demand: Demand, pool: PoolSnapshot, spread: float) -> tuple[float, float]:
        """Return TTFT and TPOT of an engine with `spread` times its share of what is in flight."""
        times = pool.step_times
        assert times is not None
        prompt = max(1.0, demand.prompt_tokens - demand.cached_tokens)
        running = spread * demand.in_flight / pool.ready
        context = demand.prompt_tokens + demand.output_tokens / 2
        beside = running * prompt / demand.output_tokens
        pace = times.seconds(max(1.0, running + beside), running * context, beside * prompt / 2)
        queued = spread * demand.waiting / pool.ready * prompt
        first = times.seconds(running + prompt, running * context, prompt * prompt / 2)
        if queued:
            first += queued / prompt * times.seconds(prompt, 0.0, prompt * prompt / 2)
        return first, pace


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
