"""A model's rates over two weeks, in bins; what is kept in the store and forecast from."""

from itertools import pairwise
from math import isfinite

import msgspec

#: Seconds of a bin, and bins that are kept: 15 days, so that a second week is compared with a whole first one.
BIN_SECONDS, MOST_BINS = 300.0, 4320
#: Bins without a rate that are bridged by a straight line; what is missing for longer stays a hole.
BRIDGED = 6


class RateBins(msgspec.Struct, frozen=True, kw_only=True):
    """Mean requests per second of bins one after another, None where nothing was seen.

    `first` is the number of the first bin since the clock's zero. The last bin is still being filled: it has `count`
    rates so far, the latest of `at`.
    """

    first: int = 0
    values: tuple[float | None, ...] = ()
    count: int = 0
    at: float = 0.0

    @property
    def last(self) -> int:
        """The number of the last bin."""
        return self.first + len(self.values) - 1


def with_rate(bins: RateBins, at: float, rate: float) -> RateBins:
    """Return the bins with one rate more; one that is no rate changes nothing.

    Where the clock has gone back, bins that are later are forgotten; where it has jumped ahead, there is a hole.
    """
    if not (isfinite(rate) and rate >= 0 and isfinite(at)):
        return bins
    number = int(at // BIN_SECONDS)
    if not bins.values or number < bins.first or number - bins.last > MOST_BINS:
        return RateBins(first=number, values=(round(rate, 3),), count=1, at=at)
    values = list(bins.values)
    count = bins.count
    if number < bins.last:
        values = values[: number - bins.first + 1]
        count = 1 if values[-1] is not None else 0
    elif number > bins.last:
        values.extend([None] * (number - bins.last))
        count = 0
    before = values[-1] or 0.0
    values[-1] = round((before * count + rate) / (count + 1), 3)
    dropped = max(0, len(values) - MOST_BINS)
    return RateBins(first=bins.first + dropped, values=tuple(values[dropped:]), count=count + 1, at=at)


def complete(bins: RateBins) -> list[float | None]:
    """Return the bins that are over, short holes bridged."""
    values = list(bins.values[:-1])
    known = [place for place, value in enumerate(values) if value is not None]
    for left, right in pairwise(known):
        if 1 < right - left <= BRIDGED + 1:
            start, end = values[left] or 0.0, values[right] or 0.0
            for place in range(left + 1, right):
                values[place] = start + (end - start) * (place - left) / (right - left)
    return values
