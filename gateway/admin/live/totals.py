"""The workers' summed counts at one moment, and their growth between two moments.

Counts only grow while a gateway runs; a fall means that it was restarted, and that nothing is known of the time
between.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

#: Model and pool.
Place = tuple[str, str]
K = TypeVar("K")


class Histogram(NamedTuple):
    """A histogram: `counts[i]` values lie in (`bounds[i - 1]`, `bounds[i]`]; the last count is above all bounds."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]

    @property
    def total(self) -> float:
        """Return the number of values."""
        return sum(self.counts)

    def quantile(self, share: float) -> float | None:
        """Return the value that this share of all values does not exceed, interpolated in its bucket; None if empty.

        A quantile above all bounds is returned as the last bound.
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
    """All counts at the moment `at`, in seconds on a monotonic clock; gauges are as of that moment."""

    at: float
    #: When the gateway was started, as its workers report it.
    started: float = 0.0
    #: Requests by model, tenant and outcome.
    requests: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    #: Tokens by model, tenant and kind.
    tokens: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    request_seconds: Mapping[Place, Histogram] = field(default_factory=dict)
    first_token_seconds: Mapping[Place, Histogram] = field(default_factory=dict)
    inter_token_seconds: Mapping[Place, Histogram] = field(default_factory=dict)
    in_flight: float | None = None
    #: By model.
    queued: Mapping[str, float] = field(default_factory=dict)

    @property
    def mark(self) -> float:
        """Return a number that only grows while the gateway runs."""
        return sum(self.requests.values()) + sum(self.tokens.values())


@dataclass(frozen=True, slots=True)
class Growth:
    """Counts of an interval of some seconds; none is negative."""

    seconds: float
    requests: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    tokens: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    request_seconds: Mapping[Place, Histogram] = field(default_factory=dict)
    first_token_seconds: Mapping[Place, Histogram] = field(default_factory=dict)
    inter_token_seconds: Mapping[Place, Histogram] = field(default_factory=dict)


def growth(before: Totals, after: Totals) -> Growth:
    """Return what was counted between two moments of one run of the gateway."""
    return Growth(
        seconds=max(0.0, after.at - before.at),
        requests=_counted(before.requests, after.requests),
        tokens=_counted(before.tokens, after.tokens),
        request_seconds=_measured(before.request_seconds, after.request_seconds),
        first_token_seconds=_measured(before.first_token_seconds, after.first_token_seconds),
        inter_token_seconds=_measured(before.inter_token_seconds, after.inter_token_seconds),
    )


def merged(histograms: list[Histogram]) -> Histogram | None:
    """Add histograms up; those whose bounds differ from the first's are left out. None if there are none."""
    if not histograms:
        return None
    bounds = histograms[0].bounds
    alike = [histogram.counts for histogram in histograms if histogram.bounds == bounds]
    return Histogram(bounds, tuple(map(sum, zip(*alike, strict=True))))


def _counted(before: Mapping[K, float], after: Mapping[K, float]) -> dict[K, float]:
    """Return only the series that grew. A new series may have been part of another one before: all together cannot have
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
