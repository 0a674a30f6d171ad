"""Define the contents of a worker's metrics file."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from itertools import repeat
from operator import add
from typing import Any, Final

import msgspec

from observability.metrics.metric import Metric

#: Version of the form below; files of another one are left alone.
VERSION: Final = 1
#: From so many values on, a `Counter` of their buckets is cheaper than counting each by itself.
_MANY: Final = 8

#: The values of a metric's labels, in their order.
Labels = tuple[str, ...]


class Distribution(msgspec.Struct, array_like=True):
    """A histogram's series: observations by bucket, the one above all bounds last, and their sum."""

    counts: list[int]
    sum: float = 0.0

    def add(self, value: float, bounds: Sequence[float]) -> None:
        """Add one observation; a negative time, from clocks that disagree, counts as 0."""
        if value < 0.0:
            value = 0.0
        self.counts[bisect_left(bounds, value)] += 1
        self.sum += value

    def add_all(self, values: Sequence[float], bounds: Sequence[float]) -> None:
        """Add observations as `add` does, with the same sum to the last bit."""
        if len(values) < _MANY:
            for value in values:
                self.add(value, bounds)
            return
        if min(values) < 0.0:
            values = [max(0.0, value) for value in values]
        self.sum = reduce(add, values, self.sum)
        for place, count in Counter(map(bisect_left, repeat(bounds), values)).items():
            self.counts[place] += count


def empty(metric: Metric) -> Distribution:
    """Return a histogram's series without observations."""
    return Distribution([0] * (len(metric.bounds) + 1))


class Numbers(msgspec.Struct):
    """Counters and gauges, and histograms, by the metric's name and its labels' values."""

    values: dict[str, dict[Labels, float]] = msgspec.field(default_factory=dict)
    distributions: dict[str, dict[Labels, Distribution]] = msgspec.field(default_factory=dict)

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """Set one series of a counter or a gauge."""
        self.values.setdefault(metric.name, {})[labels] = value

    def put(self, metric: Metric, distribution: Distribution, *labels: str) -> None:
        """Set one series of a histogram, which is not copied."""
        self.distributions.setdefault(metric.name, {})[labels] = distribution


class Snapshot(msgspec.Struct, kw_only=True):
    """A worker's numbers at one moment. `started` is in seconds since 1970, `written` on the machine's
    monotonic clock.
    """

    version: int = VERSION
    worker: str
    pid: int
    #: The process that started the worker.
    parent: int
    #: The configured number of workers.
    workers: int
    started: float
    written: float
    values: dict[str, dict[Labels, float]]
    distributions: dict[str, dict[Labels, Distribution]]
    recent: list[dict[str, Any]] = []


class Ended(msgspec.Struct):
    """Counters and histograms of all workers that have ended."""

    version: int = VERSION
    #: Ended workers whose files may still exist.
    names: list[str] = []
    #: How many workers ended, and how many were configured.
    workers: int = 0
    meant: int = 0
    started: float = 0.0
    values: dict[str, dict[Labels, float]] = msgspec.field(default_factory=dict)
    distributions: dict[str, dict[Labels, Distribution]] = msgspec.field(default_factory=dict)
