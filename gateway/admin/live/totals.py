"""What all workers have counted up to one moment, and what came to pass between two such moments.

Counts only grow while a gateway runs; a fall means that it has been restarted, and that nothing is known of the time
between.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

#: Model and pool.
Place = tuple[str, str]
K = TypeVar("K")


class Histogram(NamedTuple):
    """`counts[i]` values were at most `bounds[i]` and above the bound before; the last is of those above all."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]

    @property
    def total(self) -> float:
        """How many values there are."""
        return sum(self.counts)

    def quantile(self, share: float) -> float | None:
        """The value that this share of all values does not exceed, within its bucket; None of nothing.

        What lies above all bounds is told as the last bound.
        """
        total = self.total
        if total <= 0:
            return None
        rank, below = share * total, 0.0
        for number, bound in enumerate(self.bounds):
            here = self.counts[number]
            if here > 0 and below + here >= rank:
                lower = self.bounds[number - 1] if number else 0.0
                return lower + (bound - lower) * max(0.0, rank - below) / here
            below += here
        return self.bounds[-1] if self.bounds else None


@dataclass(frozen=True, slots=True)
class Totals:
    """All counts at the moment `at`, in seconds on a clock that does not jump; gauges are as they were then."""

    at: float
    #: When the gateway was started, as its workers tell it.
    started: float = 0.0
    #: By model, tenant and outcome.
    requests: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    #: By model, tenant and kind.
    tokens: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    request_seconds: Mapping[Place, Histogram] = field(default_factory=dict)
    first_token_seconds: Mapping[Place, Histogram] = field(default_factory=dict)
    inter_token_seconds: Mapping[Place, Histogram] = field(default_factory=dict)
    in_flight: float | None = None
    #: By model.
    queued: Mapping[str, float] = field(default_factory=dict)

    @property
    def mark(self) -> float:
        """A number that only grows while the gateway runs."""
        return sum(self.requests.values()) + sum(self.tokens.values())


@dataclass(frozen=True, slots=True)
class Growth:
    """What came to pass in some seconds. No count is negative."""

    seconds: float
    requests: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    tokens: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    request_seconds: Mapping[Place, Histogram] = field(default_factory=dict)
    first_token_seconds: Mapping[Place, Histogram] = field(default_factory=dict)
    inter_token_seconds: Mapping[Place, Histogram] = field(default_factory=dict)


def growth(before: Totals, after: Totals) -> Growth:
    """What was counted between two moments of one run of the gateway."""
    return Growth(
        seconds=max(0.0, after.at - before.at),
        requests=_counted(before.requests, after.requests),
        tokens=_counted(before.tokens, after.tokens),
        request_seconds=_measured(before.request_seconds, after.request_seconds),
        first_token_seconds=_measured(before.first_token_seconds, after.first_token_seconds),
        inter_token_seconds=_measured(before.inter_token_seconds, after.inter_token_seconds),
    )


def merged(histograms: list[Histogram]) -> Histogram | None:
    """Several as one; those whose bounds are not the first's are left out. None of none."""
    if not histograms:
        return None
    bounds = histograms[0].bounds
    alike = [histogram.counts for histogram in histograms if histogram.bounds == bounds]
    return Histogram(bounds, tuple(map(sum, zip(*alike, strict=True))))


def _counted(before: Mapping[K, float], after: Mapping[K, float]) -> dict[K, float]:
    """Only what grew. A series that is new may be one that was part of another before: all of them together cannot have
    grown by more than their sum.
    """
    most = max(0.0, sum(after.values()) - sum(before.values()))
    grown = {name: min(most, value - before.get(name, 0.0)) for name, value in after.items()}
    return {name: value for name, value in grown.items() if value > 0}


def _measured(before: Mapping[Place, Histogram], after: Mapping[Place, Histogram]) -> dict[Place, Histogram]:
    found = {}
    for place, late in after.items():
        early = before.get(place)
        if early is None or early.bounds != late.bounds:
            found[place] = late if early is None else Histogram(late.bounds, (0.0,) * len(late.counts))
        else:
            counts = tuple(max(0.0, b - a) for a, b in zip(early.counts, late.counts, strict=True))
            found[place] = Histogram(late.bounds, counts)
    return found
