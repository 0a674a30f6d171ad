"""A histogram of answer lengths on a logarithmic scale, with exponential forgetting."""

from array import array
from bisect import bisect_left
from functools import lru_cache
from itertools import accumulate
from math import log2
from operator import mul
from typing import Final

#: Buckets per doubling of the length: each is 19 % wide, finer than any prediction is accurate.
_PER_OCTAVE: Final = 4
#: Longer answers count as this long.
_LONGEST: Final = 2**20
_BUCKETS: Final = 20 * _PER_OCTAVE + 1
_MIDDLES: Final = [2 ** ((bucket + 0.5) / _PER_OCTAVE) for bucket in range(_BUCKETS)]
#: The number of newer lengths after which a length's weight has shrunk by e.
_MEMORY: Final = 2000.0
_GROWTH: Final = 1 + 1 / _MEMORY
#: New lengths get growing weights instead of old ones shrinking; beyond this weight all are scaled down.
_HEAVIEST: Final = 1e9


class LengthSketch:
    """A fading histogram: adding a length is O(1) (a cut one O(buckets)), a query O(buckets), which are 81."""

    __slots__ = ("_counts", "_mean", "_mean_bound", "_next", "_total", "_weighted", "weight")

    def __init__(self) -> None:
        self._counts = array("d", bytes(8 * _BUCKETS))
        self._next = 1.0
        self._total = 0.0
        self._weighted = 0.0
        #: Cache of the last `mean`: its argument and result. Means are queried more often than lengths are learned.
        self._mean_bound: int | None = None
        self._mean = 0.0
        #: Total weight of the lengths learned; old ones count less than one.
        self.weight = 0.0

    def add(self, tokens: int) -> None:
        """Learn the length of a complete answer."""
        self._put(_bucket(tokens), min(tokens, _LONGEST), self._next)
        self._grow()

    def add_cut(self, tokens: int) -> None:
        """Learn the length of an answer that was cut there: its full length is at least that.

        Its weight goes to the known longer ones in proportion (Efron's redistribution to the right, as in a
        Kaplan-Meier estimate), or stays where it was cut when there are none.
        """
        first = _bucket(tokens) + 1
        above = sum(self._counts[first:])
        if not above:
            self._put(first - 1, min(tokens, _LONGEST), self._next)
        else:
            share = self._next / above
            for bucket in range(first, _BUCKETS):
                if count := self._counts[bucket]:
                    self._put(bucket, _MIDDLES[bucket], share * count)
        self._grow()

    def mean(self, most: int) -> float:
        """Return the mean length with each capped at `most`. Needs at least one length."""
        if most != self._mean_bound:
            self._mean_bound, self._mean = most, self._mean_up_to(most)
        return self._mean

    def _mean_up_to(self, most: int) -> float:
        bound = _bucket(most)
        above = sum(self._counts[bound:])
        if not above:
            return self._weighted / self._total
        below = sum(map(mul, self._counts[:bound], _MIDDLES), start=0.0)
        return (below + above * min(most, _LONGEST)) / self._total

    def quantile(self, share: float) -> float:
        """Return the length that `share` of answers does not exceed, interpolated in a bucket. Needs a length."""
        reached = list(accumulate(self._counts))
        wanted = max(share, 1e-9) * reached[-1]
        bucket = min(bisect_left(reached, wanted), _BUCKETS - 1)
        count = self._counts[bucket]
        inside = (wanted - (reached[bucket] - count)) / count if count else 0.0
        return float(2 ** ((bucket + inside) / _PER_OCTAVE))

    def _put(self, bucket: int, tokens: float, weight: float) -> None:
        self._mean_bound = None
        self._counts[bucket] += weight
        self._total += weight
        self._weighted += weight * tokens

    def _grow(self) -> None:
        """Let the next length weigh more than the last one."""
        following = self._next * _GROWTH
        self.weight = self._total / following
        if following > _HEAVIEST:
            for bucket in range(_BUCKETS):
                self._counts[bucket] /= following
            self._total /= following
            self._weighted /= following
            following = 1.0
        self._next = following


@lru_cache(4096)
def _bucket(tokens: int) -> int:
    return min(int(_PER_OCTAVE * log2(max(1, tokens))), _BUCKETS - 1)
