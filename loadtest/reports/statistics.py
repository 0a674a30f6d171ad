"""Percentiles, medians over repeats and slopes, in plain Python."""

from collections.abc import Sequence
from statistics import linear_regression, median

import msgspec


class Percentiles(msgspec.Struct, frozen=True):
    """p50, p90 and p99, in the unit of the values."""

    p50: float
    p90: float
    p99: float


def percentile(ordered: Sequence[float], fraction: float) -> float:
    """Return a percentile of sorted values, linear between ranks (numpy's default). Raises ValueError if empty."""
    if not ordered:
        raise ValueError("no values")
    rank = fraction * (len(ordered) - 1)
    low = int(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def percentiles(values: Sequence[float]) -> Percentiles | None:
    """Return p50, p90 and p99, or None without values."""
    if not values:
        return None
    ordered = sorted(values)
    return Percentiles(*(round(percentile(ordered, fraction), 3) for fraction in (0.5, 0.9, 0.99)))


def median_or_none(values: Sequence[float | None]) -> float | None:
    """Return the median of the values that are not None, or None."""
    present = [value for value in values if value is not None]
    return median(present) if present else None


def median_percentiles(values: Sequence[Percentiles | None]) -> Percentiles | None:
    """Return each percentile's median over repeats, or None where no repeat has any."""
    present = [value for value in values if value is not None]
    if not present:
        return None
    return Percentiles(
        *(round(median(column), 3) for column in zip(*map(msgspec.structs.astuple, present), strict=True))
    )


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the least-squares slope of y over x; 0 with fewer than two distinct x."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return linear_regression(xs, ys).slope if len(set(xs)) > 1 else 0.0
