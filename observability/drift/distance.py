"""How far a window's counts are from those that are expected of it."""

from collections.abc import Sequence
from itertools import accumulate
from math import log, pi
from typing import NamedTuple

#: Bins that are expected to have fewer requests than this count together, as for a chi-squared test.
FEWEST: float = 5.0


class Distance(NamedTuple):
    """A distance, and what it is for traffic that has not changed: its mean times the requests, its degrees of freedom
    as a scaled chi-squared variable, and the part of its mean that is of the direction in which most varies.
    """

    value: float
    mean: float
    freedom: float
    part: float


#: The square of Kolmogorov's variable has this mean, and the variance 7 pi^4 / 720 less its square, so it is much like
#: a chi-squared variable with 5 degrees of freedom.
_KS_MEAN = pi * pi / 12
#: The part of a Brownian bridge's variance in its first direction.
_KS_PART = 6 / pi**2
_KS_FREEDOM = 2 * _KS_MEAN**2 / (7 * pi**4 / 720 - _KS_MEAN**2)


def ks_squared(observed: Sequence[float], expected: Sequence[float]) -> Distance:
    """The square of the Kolmogorov-Smirnov distance of counts in the order of their bins; both have one sum."""
    total = sum(observed)
    gaps = accumulate(seen - meant for seen, meant in zip(observed, expected, strict=True))
    return Distance((max(map(abs, gaps), default=0.0) / total) ** 2, _KS_MEAN, _KS_FREEDOM, _KS_PART)


def psi(observed: Sequence[float], expected: Sequence[float]) -> Distance:
    """The population stability index of counts; both have one sum. Half a request is added to each bin.

    For traffic that has not changed it is a chi-squared variable over the number of requests, with one degree of
    freedom less than there are bins (Yurdakul, Statistical properties of population stability index, 2018).
    """
    seen, meant, rare_seen, rare_meant = [], [], 0.0, 0.0
    for counted, hoped in zip(observed, expected, strict=True):
        if hoped < FEWEST:
            rare_seen += counted
            rare_meant += hoped
        else:
            seen.append(counted)
            meant.append(hoped)
    if rare_seen or rare_meant:
        seen.append(rare_seen)
        meant.append(rare_meant)
    bins = len(seen)
    total = sum(seen) + bins / 2
    value = sum(
        (counted - hoped) / total * log((counted + 0.5) / (hoped + 0.5))
        for counted, hoped in zip(seen, meant, strict=True)
    )
    freedom = float(max(bins - 1, 1))
    return Distance(value, freedom, freedom, 1 / freedom)
