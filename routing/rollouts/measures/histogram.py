"""Histograms of latencies with buckets of equal ratios; they are merged by addition."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import repeat
from math import ceil, log
from operator import truediv
from typing import Final

#: Eight buckets a doubling: a quantile is 4.5 % off at most.
WIDTH: Final = log(2.0) / 8


def buckets_of(logarithms: Sequence[float]) -> Counter[int]:
    """Count values by bucket, by their natural logarithms."""
    return Counter(map(ceil, map(truediv, logarithms, repeat(WIDTH))))


def upper_end(bucket: int) -> float:
    """Return the natural logarithm of the bucket's upper end."""
    return bucket * WIDTH


def merge(into: dict[int, int], other: Mapping[int, int]) -> None:
    """Add the other's counts."""
    for bucket, count in other.items():
        into[bucket] = into.get(bucket, 0) + count


def quantile_bucket(histogram: Mapping[int, int], quantile: float) -> int:
    """Return the bucket that has the quantile, of a histogram with values."""
    left = quantile * sum(histogram.values())
    for bucket in sorted(histogram):
        left -= histogram[bucket]
        if left <= 0:
            return bucket
    return max(histogram)


def above(histogram: Mapping[int, int], bucket: int) -> int:
    """Return how many values are in later buckets."""
    return sum(count for each, count in histogram.items() if each > bucket)
