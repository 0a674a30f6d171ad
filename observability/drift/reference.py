"""The reference of one histogram: what a window is expected to be, and how far windows are from that by themselves.

Each slice of the day has an expected histogram, so a daily rhythm is no drift. How much traffic varies beyond chance,
as when requests come in runs of one kind, is learned from the reference itself: each of its windows is compared with
the other days, and what its distance has beyond that of independent requests is the excess. The threshold is the
quantile of a scaled chi-squared variable with the mean and the variance of both together (Satterthwaite's way; Rao and
Scott, On chi-squared tests for multiway contingency tables, 1984, do so for clustered samples), and never less than the
farthest window of the reference. How well the excess is known counts as in Student's t: few windows, or such that are
like those before them, make a high threshold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from operator import mul
from statistics import NormalDist, fmean
from typing import Final

from observability.drift.distance import Distance, ks_squared, psi
from observability.drift.features import Histogram, Measure

#: Probability that a window is told as drifted whose traffic has not changed, over all histograms, unless configured.
FALSE_ALARMS: Final = 0.0001
#: A window with fewer requests says nothing.
FEWEST_REQUESTS: Final = 100
#: With fewer windows a reference is no reference.
FEWEST_WINDOWS: Final = 12
#: However alike, a reference's windows count as so many independent ones.
_FEWEST_INDEPENDENT: Final = 3.0
#: Requests that the whole day's histogram counts for in each slice's.
_WHOLE_DAY: Final = 50.0
#: The name of all bins together that the reference does not have.
OTHER: Final = "other"
_NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True)
class Layout:
    """How time is cut: `slots` slices a day, `days` days of reference, and windows of so many slices (`widths`, which
    divide a day).
    """

    days: int = 7
    slots: int = 96
    widths: tuple[int, ...] = (4, 24)

    @property
    def slices(self) -> int:
        """The slices of the whole reference."""
        return self.slots * self.days


@dataclass(frozen=True, slots=True)
class Compared:
    """A window beside the reference: drifted where `distance` is over `threshold`, which is for its requests."""

    width: int
    requests: int
    distance: float
    threshold: float

    @property
    def drifted(self) -> bool:
        """Whether the window is not like the reference."""
        return self.distance > self.threshold


@dataclass(frozen=True, slots=True)
class _Habit:
    """How far windows of one width are from the reference by themselves: `excess` is the part of the mean distance
    beyond chance, known by so many windows that are like independent ones, and `farthest` the largest distance as a
    multiple of the mean.
    """

    excess: float
    windows: float
    farthest: float


class Reference:
    """The reference of one histogram."""

    def __init__(self, measure: Measure, layout: Layout, first: int, slices: Mapping[int, Histogram]) -> None:
        """`first` is the number of the first slice; slices without requests may be missing."""
        self._layout = layout
        self._distance = ks_squared if measure == "ks" else psi
        self._squared = measure == "ks"
        names = {bin_ for counts in slices.values() for bin_ in counts}
        self.bins: Final = sorted(names, key=int) if measure == "ks" else sorted(names)
        self._places = {bin_: place for place, bin_ in enumerate(self.bins)}
        empty = [0.0] * (len(self.bins) + 1)
        #: Counts by day and slot; the last bin is of those that the reference does not have.
        by_day = [[empty] * layout.slots for _ in range(layout.days)]
        for number, counts in slices.items():
            day = (number - first) // layout.slots
            if 0 <= day < layout.days:
                by_day[day][number % layout.slots] = self._row(counts)
        self._by_slot = [_sum([day[slot] for day in by_day]) for slot in range(layout.slots)]
        self._whole = _sum(self._by_slot)
        self.requests = int(sum(self._whole))
        self._habits = self._learned(by_day)

    def compare(self, window: Mapping[int, Histogram], width: int, false_alarms: float) -> Compared | None:
        """Compare a window of so many slices, which are by their numbers; None: too few requests are in it, or were in
        the reference. `false_alarms` is the probability of a drift that is none.
        """
        habit = self._habits.get(width)
        rows = [(number % self._layout.slots, self._row(counts)) for number, counts in window.items()]
        observed = _sum([row for _, row in rows]) if rows else [0.0]
        requests = int(sum(observed))
        if habit is None or requests < FEWEST_REQUESTS:
            return None
        found = self._distance(observed, self._expected(rows, self._by_slot, self._whole))
        threshold = self._threshold(found, habit, requests, false_alarms)
        if self._squared:
            return Compared(width, requests, sqrt(found.value), sqrt(threshold))
        return Compared(width, requests, found.value, threshold)

    def shares(self, window: Mapping[int, Histogram]) -> list[tuple[str, float, float]]:
        """Each bin of a window with the share that is expected of it, and its own; the last bin is `OTHER`."""
        rows = [(number % self._layout.slots, self._row(counts)) for number, counts in window.items()]
        observed = _sum([row for _, row in rows])
        total = sum(observed)
        expected = self._expected(rows, self._by_slot, self._whole)
        return [
            (bin_, meant / total, seen / total)
            for bin_, meant, seen in zip([*self.bins, OTHER], expected, observed, strict=True)
            if meant or seen
        ]

    def _row(self, counts: Histogram) -> list[float]:
        row = [0.0] * (len(self.bins) + 1)
        for bin_, count in counts.items():
            place = self._places.get(bin_)
            if place is None:
                place = self._place_of_new(bin_)
            row[place] += count
        return row

    def _place_of_new(self, bin_: str) -> int:
        """The place of a bin that the reference does not have: the nearest below for lengths, else the last."""
        if not self._squared:
            return len(self.bins)
        below = [place for name, place in self._places.items() if int(name) < int(bin_)]
        return max(below, default=0)

    def _learned(self, by_day: Sequence[Sequence[Sequence[float]]]) -> dict[int, _Habit]:
        """Compare each window of the reference with the other days; returns what that says by the windows' width."""
        layout = self._layout
        found: dict[int, list[tuple[Distance, int]]] = {width: [] for width in layout.widths}
        for day in by_day:
            others = [_less(slot, own) for slot, own in zip(self._by_slot, day, strict=True)]
            whole = _sum(others)
            for width in layout.widths:
                for start in range(0, layout.slots, width):
                    rows = [(slot, day[slot]) for slot in range(start, start + width)]
                    observed = _sum([row for _, row in rows])
                    requests = int(sum(observed))
                    if requests >= FEWEST_REQUESTS and sum(whole) >= requests:
                        distance = self._distance(observed, self._expected(rows, others, whole))
                        found[width].append((distance, requests))
        beside = 1 + 1 / (layout.days - 1)
        return {
            width: _habit([(one.value, one.mean * beside / requests) for one, requests in windows])
            for width, windows in found.items()
            if len(windows) >= FEWEST_WINDOWS
        }

    def _expected(
        self, rows: Sequence[tuple[int, Sequence[float]]], by_slot: Sequence[Sequence[float]], whole: Sequence[float]
    ) -> list[float]:
        """Return the expected counts of rows of so many requests, each by the reference at its time of the day."""
        total = sum(whole)
        expected = [0.0] * len(whole)
        for slot, row in rows:
            requests = sum(row)
            if not requests:
                continue
            reference = by_slot[slot]
            share = requests / (sum(reference) + _WHOLE_DAY)
            of_day = _WHOLE_DAY / total
            for place, count in enumerate(reference):
                expected[place] += share * (count + of_day * whole[place])
        return expected

    def _threshold(self, found: Distance, habit: _Habit, requests: int, false_alarms: float) -> float:
        chance = found.mean * (1 + 1 / self._layout.days) / requests
        excess = habit.excess * student_ratio(1 - false_alarms / 2, habit.windows - 1) ** 2
        mean = chance + excess
        # What varies beyond chance may do so in one direction only, as where all prompts become longer and shorter.
        variance = 2 * (chance**2 / found.freedom + 2 * found.part * chance * excess + excess**2)
        freedom = 2 * mean**2 / variance
        return mean * max(chi_squared_quantile(1 - false_alarms, freedom) / freedom, habit.farthest)


def student_ratio(probability: float, freedom: float) -> float:
    """Student's quantile over the normal one, by Cornish and Fisher's expansion (Abramowitz and Stegun, 26.7.5)."""
    z = _NORMAL.inv_cdf(probability)
    square = z * z
    terms = (
        (square + 1) / 4,
        ((5 * square + 16) * square + 3) / 96,
        (((3 * square + 19) * square + 17) * square - 15) / 384,
        ((((79 * square + 776) * square + 1482) * square - 1920) * square - 945) / 92160,
    )
    return 1 + sum(term / freedom**power for power, term in enumerate(terms, 1))


def _habit(windows: Sequence[tuple[float, float]]) -> _Habit:
    """A reference's distances, each with its mean by chance."""
    excesses = [distance - chance for distance, chance in windows]
    excess = max(0.0, fmean(excesses))
    farthest = max(distance / (chance + excess) for distance, chance in windows)
    return _Habit(excess, _independent(excesses), farthest)


def _independent(values: Sequence[float]) -> float:
    """How many independent values would tell their mean as well as these, by their autocorrelation."""
    mean, count = fmean(values), len(values)
    gaps = [value - mean for value in values]
    variance = sum(gap * gap for gap in gaps)
    if not variance:
        return float(count)
    like = 0.0
    for lag in range(1, count // 4 + 1):
        alike = sum(map(mul, gaps, gaps[lag:])) / variance
        if alike <= 0:
            break
        like += alike
    return max(count / (1 + 2 * like), _FEWEST_INDEPENDENT)


def chi_squared_quantile(probability: float, freedom: float) -> float:
    """The quantile by Wilson and Hilferty (1931): at 0.9999 it is 7 % too high for 1 degree of freedom, 1 % for 5."""
    part = 2 / (9 * freedom)
    return float(freedom * max(0.0, 1 - part + _NORMAL.inv_cdf(probability) * sqrt(part)) ** 3)


def _sum(rows: Sequence[Sequence[float]]) -> list[float]:
    return [sum(column) for column in zip(*rows, strict=True)]


def _less(row: Sequence[float], other: Sequence[float]) -> list[float]:
    return [one - less for one, less in zip(row, other, strict=True)]
