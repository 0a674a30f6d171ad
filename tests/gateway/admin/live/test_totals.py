"""Percentiles and growth: within their buckets, never negative, whatever the counts are."""

from bisect import bisect_left
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.admin.live.totals import Histogram, Totals, growth, merged
from gateway.admin.live.window import LEAST_SECONDS, PAUSE_SECONDS, WINDOW_SECONDS, Window

BOUNDS = (0.01, 0.02, 0.05, 0.1, 1.0)
COUNT = st.integers(0, 10**9).map(float)
HISTOGRAM = st.tuples(*[COUNT] * (len(BOUNDS) + 1)).map(lambda counts: Histogram(BOUNDS, counts))
NAME = st.sampled_from(["a", "b", "other"])
SERIES = st.dictionaries(st.tuples(NAME, NAME, st.sampled_from(["ok", "shed"])), COUNT, max_size=6)
PLACED = st.dictionaries(st.tuples(NAME, NAME), HISTOGRAM, max_size=3)


def totals(at: float, **counts: Any) -> Totals:
    return Totals(at=at, **counts)


def requests(at: float, count: float, **more: Any) -> Totals:
    return Totals(at=at, requests={("m", "t", "ok"): count}, **more)


@given(st.lists(st.floats(0, 2), min_size=1, max_size=200), st.floats(0.01, 1))
def test_a_quantile_is_in_the_bucket_of_the_value_that_it_stands_for(values: list[float], share: float) -> None:
    counts = [0.0] * (len(BOUNDS) + 1)
    for value in values:
        counts[bisect_left(BOUNDS, value)] += 1
    found = Histogram(BOUNDS, tuple(counts)).quantile(share)
    assert found is not None
    # The value whose rank is the first that reaches the share; ranks count from 1.
    rank = share * len(values)
    exact = sorted(values)[min(len(values) - 1, max(0, -int(-rank // 1) - 1))]
    bucket = bisect_left(BOUNDS, exact)
    upper = BOUNDS[min(bucket, len(BOUNDS) - 1)]
    lower = BOUNDS[bucket - 1] if 0 < bucket < len(BOUNDS) else 0.0 if bucket == 0 else upper
    assert lower - 1e-9 <= found <= upper + 1e-9


@given(HISTOGRAM)
def test_quantiles_do_not_fall(histogram: Histogram) -> None:
    found = [histogram.quantile(share) for share in (0.5, 0.95, 0.99)]
    if histogram.total == 0:
        assert found == [None, None, None]
    else:
        known = [value for value in found if value is not None]
        assert len(known) == 3
        assert known == sorted(known)
        assert 0 <= known[0] <= known[-1] <= BOUNDS[-1]


def test_quantiles_of_known_values() -> None:
    assert Histogram((1.0, 2.0), (0.0, 10.0, 0.0)).quantile(0.5) == 1.5
    assert Histogram((1.0, 2.0), (10.0, 0.0, 0.0)).quantile(0.25) == 0.25
    assert Histogram((1.0, 2.0), (0.0, 0.0, 3.0)).quantile(0.5) == 2.0
    assert Histogram((), (3.0,)).quantile(0.5) is None


def test_histograms_add_up() -> None:
    one, other = Histogram((1.0,), (1.0, 2.0)), Histogram((1.0,), (10.0, 20.0))
    assert merged([one, other]) == Histogram((1.0,), (11.0, 22.0))
    assert merged([one, Histogram((2.0,), (5.0, 5.0))]) == one
    assert merged([]) is None


@given(SERIES, SERIES, SERIES, SERIES, PLACED, PLACED)
def test_nothing_grows_by_less_than_nothing_or_more_than_everything(
    r1: Any, r2: Any, t1: Any, t2: Any, h1: Any, h2: Any
) -> None:
    before = totals(10.0, requests=r1, tokens=t1, request_seconds=h1)
    after = totals(12.0, requests=r2, tokens=t2, request_seconds=h2)
    grown = growth(before, after)
    assert grown.seconds == 2.0
    for found, early, late in ((grown.requests, r1, r2), (grown.tokens, t1, t2)):
        most = max(0.0, sum(late.values()) - sum(early.values()))
        assert all(0 < value <= most for value in found.values())
    assert all(count >= 0 for one in grown.request_seconds.values() for count in one.counts)


def test_a_tenant_that_gets_a_series_of_its_own_does_not_jump() -> None:
    before = totals(0.0, requests={("m", "other", "ok"): 5000.0})
    after = totals(1.0, requests={("m", "other", "ok"): 1000.0, ("m", "late", "ok"): 4007.0})
    assert growth(before, after).requests == {("m", "late", "ok"): 7.0}


def test_the_window_is_so_long_and_no_longer() -> None:
    window = Window()
    assert window.add(requests(0.0, 0.0)) is None
    found = [window.add(requests(float(second), 10.0 * second)) for second in range(1, 60)]
    assert found[0] is None, "too little is seen"
    spans = [grown.seconds for grown in found[1:] if grown]
    assert spans[0] >= LEAST_SECONDS
    assert max(spans) == WINDOW_SECONDS
    assert all(grown and grown.requests["m", "t", "ok"] == 10 * grown.seconds for grown in found[1:])


def test_a_restart_begins_a_new_window() -> None:
    window = Window()
    for second in range(20):
        window.add(requests(float(second), 1e6 + second, started=100.0))
    assert window.add(requests(20.0, 5.0, started=200.0)) is None
    grown = window.add(requests(22.0, 9.0, started=200.0))
    assert grown is not None
    assert grown.requests == {("m", "t", "ok"): 4.0}


def test_counts_that_fall_and_come_back_are_no_rate() -> None:
    window = Window()
    for second in range(10):
        window.add(requests(float(second), 1e6 + second))
    assert window.add(requests(10.0, 4e5)) is None, "a worker's file could not be read"
    assert window.add(requests(11.0, 1e6 + 11)) is None
    grown = window.add(requests(13.0, 1e6 + 13))
    assert grown is not None
    assert grown.requests == {("m", "t", "ok"): 2.0}


def test_a_pause_in_looking_begins_a_new_window() -> None:
    window = Window()
    for second in range(5):
        window.add(requests(float(second), float(second)))
    assert window.add(requests(5.0 + PAUSE_SECONDS, 1e9)) is None


@given(st.lists(st.tuples(st.floats(0.1, 20), st.integers(0, 10**6), st.booleans()), max_size=40))
def test_no_rate_is_ever_negative_or_above_what_came(steps: list[tuple[float, int, bool]]) -> None:
    window, at, count = Window(), 0.0, 0.0
    for seconds, more, restarted in steps:
        at += seconds
        count = float(more) if restarted else count + more
        grown = window.add(requests(at, count))
        if grown is not None:
            assert grown.seconds >= LEAST_SECONDS
            assert all(0 < value <= count for value in grown.requests.values())
