import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicas.controller.forecast.rate_history import (
    Outage,
    RateSample,
    growth,
    returning,
    sampled,
    with_outage,
    with_sample,
)


class Seen:
    """A history that is fed with counts of Poisson arrivals."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = random.Random(seed)
        self.history: tuple[RateSample, ...] = ()
        self.outage: Outage | None = None
        self.now = 0.0
        self.sample = sampled((), 0.0, 0.0, 30.0)

    def play(self, rate: float, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            seen = max(0.0, self._rng.gauss(rate, (rate / 30.0) ** 0.5))
            self.sample = sampled(self.history, self.now, seen, 30.0)
            self.outage = with_outage(self.outage, self.history, self.sample)
            self.history = with_sample(self.history, self.sample)
            self.now += 10.0


@pytest.mark.parametrize("rate", [0.5, 5.0, 500.0])
def test_a_steady_rate_is_steadied_and_does_not_grow(rate: float) -> None:
    seen = Seen()
    means, growths = [], []
    for _ in range(100):
        seen.play(rate, 30.0)
        means.append(seen.sample.mean)
        growths.append(growth(seen.history, seen.sample, 100.0, 0.9))
    spread = (rate / 30.0) ** 0.5
    assert sum(abs(mean - rate) for mean in means[5:]) / 95 < 0.6 * spread
    assert sum(grown > 0 for grown in growths) < 10


def test_a_jump_is_seen_at_once_and_remembered_as_growth() -> None:
    seen = Seen()
    seen.play(5.0, 600.0)
    seen.play(9.0, 60.0)
    assert seen.sample.mean == pytest.approx(9.0, abs=1.5)
    seen.play(9.0, 240.0)
    assert growth(seen.history, seen.sample, 100.0, 0.9) == pytest.approx(4.0, abs=1.2)
    # After a fall it says nothing any more.
    seen.play(4.0, 200.0)
    assert growth(seen.history, seen.sample, 100.0, 0.9) == 0.0


def test_growth_is_expected_of_half_the_rate_at_most() -> None:
    seen = Seen()
    seen.play(1.0, 600.0)
    seen.play(100.0, 300.0)
    assert growth(seen.history, seen.sample, 100.0, 0.9) <= 0.5 * seen.sample.mean


@given(st.lists(st.tuples(st.floats(-1e5, 1e5), st.floats(0, 1e4), st.floats(1, 120)), max_size=60))
def test_whatever_the_clock_does_the_history_is_bounded_and_in_order(given: list[tuple[float, float, float]]) -> None:
    history: tuple[RateSample, ...] = ()
    for at, rate, window in given:
        sample = sampled(history, at, rate, window)
        assert sample.mean >= 0
        history = with_sample(history, sample)
        times = [old.at for old in history]
        assert times == sorted(times)
        assert len(history) <= 361
        assert 0 <= growth(history, sample, 100.0, 0.9) <= max(0.5 * sample.mean, 0.0)


def test_an_outage_is_told_from_a_load_that_ends() -> None:
    seen = Seen()
    seen.play(50.0, 2400.0)
    seen.play(0.0, 60.0)
    assert seen.outage is not None
    assert seen.outage.rate == pytest.approx(50.0, rel=0.1)
    assert not returning(seen.outage, seen.sample)
    seen.play(0.0, 7200.0)
    seen.play(6.0, 40.0)
    assert seen.outage is not None
    assert returning(seen.outage, seen.sample)
    seen.play(48.0, 120.0)
    assert seen.outage is None


def test_a_lower_rate_that_lasts_ends_an_outage() -> None:
    seen = Seen()
    seen.play(50.0, 2400.0)
    seen.play(0.0, 600.0)
    seen.play(8.0, 1200.0)
    assert seen.outage is None


@pytest.mark.parametrize("rates", [[(50.0, 600.0), (0.0, 300.0)], [(0.3, 3600.0), (0.0, 300.0)]])
def test_short_and_small_loads_make_no_outage(rates: list[tuple[float, float]]) -> None:
    seen = Seen()
    for rate, seconds in rates:
        seen.play(rate, seconds)
    assert seen.outage is None


def test_a_slow_fall_is_no_outage() -> None:
    seen = Seen()
    for step in range(60):
        seen.play(60.0 - step, 120.0)
    assert seen.outage is None


def test_a_crowd_is_no_trend_of_its_size() -> None:
    seen = Seen()
    seen.play(5.0, 900.0)
    grown = []
    for _ in range(110):
        seen.play(100.0, 10.0)
        grown.append(growth(seen.history, seen.sample, 100.0, 0.9))
    # What was there before it may come once more, and nothing once it is as long ago as is looked back.
    assert max(grown) <= 7.0
    assert grown[-5:] == [0.0] * 5
