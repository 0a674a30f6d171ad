from math import inf, nan

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from replicas.controller.forecast.rate_bins import BIN_SECONDS, MOST_BINS, RateBins, complete, with_rate


@given(
    st.lists(
        st.tuples(st.floats(-1e7, 1e9) | st.sampled_from([nan, inf]), st.floats(-1, 1e5) | st.sampled_from([nan, inf])),
        max_size=30,
    )
)
def test_bins_are_bounded_whatever_comes(given: list[tuple[float, float]]) -> None:
    bins = RateBins()
    for at, rate in given:
        bins = with_rate(bins, at, rate)
        assert len(bins.values) <= MOST_BINS
        assert all(value is None or 0 <= value < 1e6 for value in bins.values)
        assert not bins.values or bins.values[-1] is not None
        assert msgspec.json.decode(msgspec.json.encode(bins), type=RateBins) == bins


def test_a_bin_has_the_mean_of_its_rates() -> None:
    bins = RateBins()
    for at, rate in ((0.0, 1.0), (10.0, 3.0), (299.0, 5.0), (300.0, 7.0)):
        bins = with_rate(bins, at, rate)
    assert list(bins.values) == [3.0, 7.0]


def test_short_holes_are_bridged_and_long_ones_stay() -> None:
    bins = RateBins()
    for place, rate in ((0, 1.0), (3, 4.0), (40, 2.0), (41, 2.0)):
        bins = with_rate(bins, place * BIN_SECONDS, rate)
    found = complete(bins)
    assert found[:4] == [1.0, 2.0, 3.0, 4.0]
    assert set(found[4:40]) == {None}
    assert found[40:] == [2.0]


def test_a_clock_that_goes_back_forgets_what_is_later() -> None:
    bins = RateBins()
    for place in range(20):
        bins = with_rate(bins, place * BIN_SECONDS, float(place))
    bins = with_rate(bins, 5 * BIN_SECONDS, 50.0)
    assert len(bins.values) == 6
    assert with_rate(bins, -1e6, 1.0).values == (1.0,)
