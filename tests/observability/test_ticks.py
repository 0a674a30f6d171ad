"""Moments that timers share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observability.ticks import until_tick


@pytest.mark.parametrize(
    ("now", "wait"),
    [(100.0, 0.25), (100.1, 0.15), (100.2499, 0.2501), (100.2251, 0.2749), (100.22, 0.03)],
)
def test_the_next_beat_that_is_not_too_near(now: float, wait: float) -> None:
    assert until_tick(0.25, now) == pytest.approx(wait)


@given(st.floats(0, 1e6), st.sampled_from([0.05, 0.25, 1.0]))
def test_waiting_ends_at_a_multiple(now: float, period: float) -> None:
    wait = until_tick(period, now)
    assert 0.099 * period < wait < 1.101 * period
    beats = (now + wait) / period
    assert beats == pytest.approx(round(beats), abs=1e-6)


@given(st.floats(0, 1e6))
def test_slower_beats_fall_on_faster_ones(now: float) -> None:
    slow = now + until_tick(1.0, now)
    # Just before, so that the beat itself is the next one.
    fast = slow - 0.1 + until_tick(0.25, slow - 0.1)
    assert fast == pytest.approx(slow, abs=1e-6)
