from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observability.drift.distance import ks_squared, psi

HISTOGRAM = st.lists(st.integers(0, 5000), min_size=2, max_size=40).filter(lambda counts: sum(counts) > 0)


def test_ks_is_the_largest_gap_of_the_sums() -> None:
    assert ks_squared([10, 30, 60], [20, 40, 40]).value == pytest.approx(0.2**2)


def test_psi_is_both_ways_of_kullback_and_leibler() -> None:
    found = psi([300, 700], [500, 500])
    assert found.value == pytest.approx(0.2 * log(700.5 / 500.5) + 0.2 * log(500.5 / 300.5), rel=0.01)
    assert found.freedom == 1


def test_rare_bins_count_together() -> None:
    together = psi([980, 20], [990, 10])
    assert psi([980, 12, 8], [990, 4, 4]).value > psi([980, 20, 0], [982, 9, 9]).freedom - 3
    assert psi([980, 10, 10, 0], [990, 4, 4, 2]) == psi([980, 20], [990, 10]) == together


@given(HISTOGRAM)
def test_what_is_as_expected_is_at_no_distance(counts: list[int]) -> None:
    assert ks_squared(counts, counts).value == 0
    assert psi(counts, counts).value == 0


@given(HISTOGRAM, st.data())
def test_distances_are_never_negative(expected: list[int], data: st.DataObject) -> None:
    observed = data.draw(st.permutations(expected))
    assert 0 <= ks_squared(observed, expected).value <= 1
    assert psi(observed, expected).value >= 0
