"""Compare how often an event happens at two versions, by a confidence sequence: valid at any time it is looked at.

Of all events of a slice, the candidate's are as many as its share of the requests says, if its rate is the baseline's;
with `ratio` times the rate, an event is the candidate's with the odds `ratio` times as high. So the rates themselves,
which change with the traffic, need not be known. The likelihoods of all ratios of a grid, against their mean under a
fixed prior, are a martingale for the true one, and Ville's inequality bounds how often it ever exceeds 1 / error:
Lindon and Malek, "Anytime-Valid Inference for Multinomial Count Data" (NeurIPS 2022), with a grid in place of a
conjugate prior, as shares change from stage to stage. Events of one slice are drawn without replacement, for which the
bound holds all the more (Hoeffding 1963, theorem 4).
"""

from collections.abc import Sequence
from math import exp, log, log1p
from typing import Final, NamedTuple

#: Ratios from 1/64 to 64.
_GRID: Final = [2.0 ** (step * 0.375) for step in range(-16, 17)]
_LOGS: Final = [log(ratio) for ratio in _GRID]
_EQUAL: Final = _GRID.index(1.0)
#: Twice as likely within a factor 4 as outside.
_PRIOR: Final = [2.0 if abs(each) <= log(4.0) else 1.0 for each in _LOGS]
_LOG_PRIOR: Final = [log(weight / sum(_PRIOR)) for weight in _PRIOR]


class Cell(NamedTuple):
    """A slice: events of both versions together, those of the candidate, and its share of what they are among."""

    events: int
    candidate: int
    share: float


class RateRatio(NamedTuple):
    """An interval of the ratio, which ever misses the true one with the error that was asked for.

    `high` None: there is no upper limit. `evidence` is the logarithm of that against equal rates: they are outside of
    the interval when it is log(1 / error) or more. `likelihood` has the logarithm of each ratio of the grid.
    """

    low: float
    high: float | None
    evidence: float
    likelihood: Sequence[float]

    def evidence_of(self, times: float) -> float:
        """Return the evidence of so many times as many cells that are like these."""
        return _evidence([times * each for each in self.likelihood])


def rate_ratio(cells: Sequence[Cell], error: float) -> RateRatio:
    """Return the interval of the candidate's rate over the baseline's."""
    likelihood = [0.0] * len(_GRID)
    mine = 0
    for events, candidate, share in cells:
        mine += candidate
        for place, ratio in enumerate(_GRID):
            likelihood[place] -= events * log1p(share * (ratio - 1.0))
    likelihood = [value + mine * each for value, each in zip(likelihood, _LOGS, strict=True)]
    low, high = _limits(likelihood, _mixture(likelihood) + log(error))
    return RateRatio(low, high, _evidence(likelihood), likelihood)


def _mixture(likelihood: Sequence[float]) -> float:
    best = max(likelihood)
    return best + log(sum([exp(v - best + p) for v, p in zip(likelihood, _LOG_PRIOR, strict=True)]))


def _evidence(likelihood: Sequence[float]) -> float:
    return max(_mixture(likelihood) - likelihood[_EQUAL], 0.0)


def _limits(likelihood: list[float], least: float) -> tuple[float, float | None]:
    """Find where the likelihood, which is concave in the ratio's logarithm, is as much as `least`."""
    inside = [place for place, value in enumerate(likelihood) if value >= least]
    first, last = inside[0], inside[-1]
    low = 0.0 if first == 0 else exp(_crossing(likelihood, first - 1, first, least))
    high = None if last == len(_GRID) - 1 else exp(_crossing(likelihood, last + 1, last, least))
    return low, high


def _crossing(likelihood: list[float], outside: int, inside: int, least: float) -> float:
    below, above = likelihood[outside], likelihood[inside]
    return _LOGS[outside] + (_LOGS[inside] - _LOGS[outside]) * (least - below) / (above - below)
