"""Pair what both versions measured at the same time, on requests with prompts of like length."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from math import log
from typing import Final, NamedTuple

from routing.rollouts.measures.measures import Measures
from routing.rollouts.measures.slice import SLICE_SECONDS, Moments, Slice

#: Slices are put together until they have so many pairs of values: the mean of fewer is far from normal.
_LEAST_PAIRS: Final = 5.0
#: A stratum may be rare. Fewer pairs make more blocks, and so better known variances.
_LEAST_PAIRS_OF_STRATUM: Final = 2.0
#: The variance of a difference between versions at one time, in variances of a single value: requests of one version
#: at one time share its load, so that no number of them makes their mean exact.
_SHARED: Final = 0.05
#: Seconds over which requests and the replicas that answered them are counted.
_LOAD_SECONDS: Final = 60

_NOTHING: Final = Slice()
_NO_MOMENTS: Final[dict[int, Moments]] = {}


class Moment(NamedTuple):
    """A slice of both versions. `load` is the logarithm of the candidate's requests per replica over the baseline's."""

    begin: int
    baseline: Slice
    candidate: Slice
    load: float


class Block(NamedTuple):
    """Like requests of both versions at one time: the difference of their mean logarithms, candidate minus baseline.

    `minute` is counted from the first slice; `weight` is the inverse of the variance, in variances of one value.
    """

    minute: float
    difference: float
    weight: float
    load: float


def moments_of(baseline: Measures, candidate: Measures) -> list[Moment]:
    """Pair the slices, the earliest first."""
    found: list[Moment] = []
    sides = _Lately(), _Lately()
    for begin in sorted(baseline.slices.keys() | candidate.slices.keys()):
        pair = baseline.slices.get(begin, _NOTHING), candidate.slices.get(begin, _NOTHING)
        epoch = max(piece.epoch for piece in pair)
        theirs, ours = (side.load(begin, epoch, piece.replicas) for side, piece in zip(sides, pair, strict=True))
        found.append(Moment(begin, *pair, log(ours / theirs) if ours and theirs else 0.0))
    return found


class _Lately:
    """Requests on each replica in the last minute, since shares last changed: those of one slice tell too little."""

    def __init__(self) -> None:
        self._last: deque[tuple[int, Mapping[str, int]]] = deque()
        self._epoch = 0

    def load(self, begin: int, epoch: int, replicas: Mapping[str, int]) -> float:
        last = self._last
        if epoch > self._epoch:
            last.clear()
            self._epoch = epoch
        last.append((begin, replicas))
        while begin - last[0][0] >= _LOAD_SECONDS:
            last.popleft()
        served = sum([sum(each.values()) for _, each in last])
        return served / len(set().union(*[each for _, each in last])) if served else 0.0


def blocks(moments: Sequence[Moment], measure: str, stratum: int | None = None) -> list[Block]:
    """Compare a measure by time, in one stratum of prompt lengths or in each of them (None)."""
    return list(_all_strata(moments, measure) if stratum is None else _one_stratum(moments, measure, stratum))


def _one_stratum(moments: Sequence[Moment], measure: str, stratum: int) -> Iterator[Block]:
    first = moments[0].begin if moments else 0
    theirs, ours, their_total, our_total = 0, 0, 0.0, 0.0
    load = times = 0.0
    for moment in moments:
        one = moment.baseline.moments.get(measure, _NO_MOMENTS).get(stratum)
        other = moment.candidate.moments.get(measure, _NO_MOMENTS).get(stratum)
        if one is not None:
            theirs += one.count
            their_total += one.total
        if other is not None:
            ours += other.count
            our_total += other.total
        load += moment.load
        times += 1
        if theirs and ours:
            pairs = theirs * ours / (theirs + ours)
            if pairs >= _LEAST_PAIRS_OF_STRATUM:
                minute = (moment.begin - first + SLICE_SECONDS) / 60.0
                difference = our_total / ours - their_total / theirs
                yield Block(minute, difference, 1.0 / (1.0 / pairs + _SHARED), load / times)
                theirs, ours, their_total, our_total = 0, 0, 0.0, 0.0
                load = times = 0.0


def _all_strata(moments: Sequence[Moment], measure: str) -> Iterator[Block]:
    first = moments[0].begin if moments else 0
    #: By stratum: counts and totals of the baseline and of the candidate.
    sums: dict[int, list[float]] = {}
    load = times = 0.0
    for moment in moments:
        theirs, ours = moment.baseline.moments.get(measure), moment.candidate.moments.get(measure)
        if not theirs or not ours:
            continue
        for place, of_version in ((0, theirs), (2, ours)):
            for stratum, values in of_version.items():
                row = sums.get(stratum)
                if row is None:
                    row = sums[stratum] = [0.0, 0.0, 0.0, 0.0]
                row[place] += values.count
                row[place + 1] += values.total
        load += moment.load
        times += 1
        pairs = difference = 0.0
        for one, their_total, other, our_total in sums.values():
            if one and other:
                weight = one * other / (one + other)
                pairs += weight
                difference += weight * (our_total / other - their_total / one)
        if pairs >= _LEAST_PAIRS:
            minute = (moment.begin - first + SLICE_SECONDS) / 60.0
            yield Block(minute, difference / pairs, 1.0 / (1.0 / pairs + _SHARED), load / times)
            sums = {}
            load = times = 0.0


def strata_of(moments: Sequence[Moment], measure: str) -> list[int]:
    """Return the strata in which both versions have values."""
    ours: set[int] = set()
    theirs: set[int] = set()
    for moment in moments:
        ours.update(moment.candidate.moments.get(measure, ()))
        theirs.update(moment.baseline.moments.get(measure, ()))
    return sorted(ours & theirs)
