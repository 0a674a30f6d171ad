"""Measures of the requests of one version that arrived within one slice of time."""

from bisect import bisect_right
from collections.abc import Sequence
from operator import mul
from typing import Final

import msgspec

from routing.rollouts.measures import histogram

#: Seconds of a slice; versions are compared within one, so that load and traffic that change for both do not count.
SLICE_SECONDS: Final = 10
#: Prompt tokens from which a request belongs to the next stratum: latencies are compared within one.
STRATA: Final = (256, 1024, 4096, 16_384)


class Moments(msgspec.Struct, array_like=True):
    """Logarithms of one measure in one stratum: how many, their sum, and their squares' sum."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, values: Sequence[float]) -> None:
        """Add logarithms."""
        self.count += len(values)
        self.total += sum(values)
        self.squares += sum(map(mul, values, values))

    def merge(self, other: "Moments") -> None:
        """Add another's."""
        self.count += other.count
        self.total += other.total
        self.squares += other.squares


class Slice(msgspec.Struct):
    """Additive counts. `counts` are events by name (`routing.rollouts.measures.events`) and what they are counted
    among; `moments` and `histograms` are by measure and stratum; `replicas` are requests by the replica that answered
    them. `epoch` is the last one of the split.
    """

    counts: dict[str, int] = {}
    moments: dict[str, dict[int, Moments]] = {}
    histograms: dict[str, dict[int, dict[int, int]]] = {}
    replicas: dict[str, int] = {}
    epoch: int = 0

    def count(self, name: str, times: int = 1) -> None:
        """Count an event."""
        self.counts[name] = self.counts.get(name, 0) + times

    def add(self, measure: str, stratum: int, logarithms: Sequence[float]) -> None:
        """Add values by their natural logarithms."""
        strata = self.moments.setdefault(measure, {})
        moments = strata.get(stratum)
        if moments is None:
            moments = strata[stratum] = Moments()
        moments.add(logarithms)

    def add_times(self, measure: str, stratum: int, logarithms: Sequence[float]) -> None:
        """Add seconds by their natural logarithms, of which percentiles are wanted."""
        self.add(measure, stratum, logarithms)
        buckets = self.histograms.setdefault(measure, {}).setdefault(stratum, {})
        histogram.merge(buckets, histogram.buckets_of(logarithms))

    def merge(self, other: "Slice") -> None:
        """Add another's."""
        for name, times in other.counts.items():
            self.count(name, times)
        self.epoch = max(self.epoch, other.epoch)
        for replica, times in other.replicas.items():
            self.replicas[replica] = self.replicas.get(replica, 0) + times
        for measure, strata in other.moments.items():
            mine = self.moments.setdefault(measure, {})
            for stratum, moments in strata.items():
                mine.setdefault(stratum, Moments()).merge(moments)
        for measure, by_stratum in other.histograms.items():
            of_measure = self.histograms.setdefault(measure, {})
            for stratum, buckets in by_stratum.items():
                histogram.merge(of_measure.setdefault(stratum, {}), buckets)


def stratum_of(prompt_tokens: int) -> int:
    """Return the stratum of a prompt, from 0 on."""
    return bisect_right(STRATA, prompt_tokens)
