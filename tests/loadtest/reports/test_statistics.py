import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.reports.statistics import Percentiles, median_or_none, median_percentiles, percentile, percentiles, slope


def test_percentiles_lie_between_ranks() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert percentile([7.0], 0.99) == 7.0
    assert percentiles([]) is None
    assert percentiles([float(n) for n in range(101)]) == Percentiles(50, 90, 99)
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 1))
def test_a_percentile_is_within_the_values(values: list[float], fraction: float) -> None:
    values.sort()
    assert values[0] - 1e-6 <= percentile(values, fraction) <= values[-1] + 1e-6


def test_medians_skip_what_is_missing() -> None:
    assert median_or_none([None, 3.0, 1.0, 2.0]) == 2.0
    assert median_or_none([None]) is None
    assert median_percentiles([None, Percentiles(1, 2, 3), Percentiles(3, 4, 5)]) == Percentiles(2, 3, 4)
    assert median_percentiles([None]) is None


def test_slope() -> None:
    assert slope([(0, 1), (10, 2), (20, 3)]) == pytest.approx(0.1)
    assert slope([(5, 1)]) == 0
    assert slope([]) == 0
