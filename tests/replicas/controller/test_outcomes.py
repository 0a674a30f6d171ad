import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicas.controller.outcomes import (
    LEAST_HEADROOM,
    MOST_HEADROOM,
    learned_factor,
    learned_headroom,
    with_signals,
)
from replicas.controller.signals import LEAST_WEIGHT, WEIGHTS, Signals, learned_weights, pressure

SIGNALS = st.builds(Signals, **{name: st.floats(0, 2) for name in WEIGHTS})


@given(st.lists(st.tuples(SIGNALS, st.booleans()), max_size=60))
def test_weights_stay_weights(outcomes: list[tuple[Signals, bool]]) -> None:
    weights: dict[str, float] = dict(WEIGHTS)
    for signals, missed in outcomes:
        weights = learned_weights(weights, signals, missed=missed)
        assert sum(weights.values()) == pytest.approx(1.0)
        assert min(weights.values()) >= LEAST_WEIGHT * 0.999
        named = signals.named()
        assert min(named.values()) - 1e-9 <= pressure(signals, weights) <= max(named.values()) + 1e-9


def test_the_signal_that_comes_before_misses_gains() -> None:
    rng = random.Random(1)
    weights: dict[str, float] = dict(WEIGHTS)
    for _ in range(300):
        missed = rng.random() < 0.3
        quiet = {name: rng.random() for name in WEIGHTS}
        signals = Signals(**{**quiet, "kv": 1.5 if missed else 0.5, "tokens": 1.5 if rng.random() < 0.3 else 0.5})
        weights = learned_weights(weights, signals, missed=missed)
    assert weights["kv"] > 0.6
    assert weights["tokens"] < WEIGHTS["tokens"]


def test_outcomes_are_waited_for_and_what_is_pending_is_bounded() -> None:
    calm, late = (Signals(tokens=0.5, queue=0, occupancy=0.5, kv=1.5, slo=slo) for slo in (0.5, 2.0))
    pending, weights = with_signals((), {}, 0.0, {"p": calm}, {"p": 100.0})
    pending, weights = with_signals(pending, weights, 50.0, {"p": late}, {"p": 100.0})
    assert not weights
    assert pending[0].missed
    pending, weights = with_signals(pending, weights, 100.0, {"p": calm}, {"p": 100.0})
    assert weights["p"]["kv"] > WEIGHTS["kv"]
    for now in range(100, 100_000, 20):
        pending, weights = with_signals(pending, weights, float(now), {"p": calm, "q": calm}, {"p": 9e9, "q": 9e9})
    assert len(pending) <= 122
    # Pools that are gone are forgotten.
    assert with_signals(pending, weights, 1e6, {"q": calm}, {"q": 100.0})[1].keys() == {"q"}


@given(st.floats(0, 1), st.floats(0.5, 0.9999), st.floats(-10, 1e6), st.booleans())
def test_headroom_keeps_its_bounds(headroom: float, in_time: float, seconds: float, late: bool) -> None:
    assert LEAST_HEADROOM <= learned_headroom(headroom, in_time, seconds, late=late) <= MOST_HEADROOM


def test_headroom_settles_where_as_much_is_late_as_may_be() -> None:
    headroom, rng, late_time = 0.98, random.Random(2), 0
    for _ in range(200_000):
        late = rng.random() > headroom
        late_time += late
        headroom = learned_headroom(headroom, 0.95, 5.0, late=late)
    assert late_time / 200_000 == pytest.approx(0.1, abs=0.03)


def test_the_capacity_is_corrected_by_what_is_observed() -> None:
    factor = 1.0
    for _ in range(200):
        capacity = 10.0 * factor
        factor = learned_factor(factor, 7.0, capacity, 1.5 if capacity > 0 and factor > 0.6 else 0.9, 5.0)
    assert 0.5 < factor < 0.75
    # Where nothing is late with little to do, nothing is learned; where there is room to spare, it slowly rises.
    assert learned_factor(0.6, 1.0, 6.0, 0.2, 5.0) == 0.6
    assert 0.6 < learned_factor(0.6, 5.9, 6.0, 0.3, 5.0) < 0.61
    assert learned_factor(0.6, 0.0, 6.0, 5.0, 5.0) == 0.6
    assert learned_factor(0.6, 1.0, 6.0, 5.0, 5.0) == 0.6


@given(st.floats(0.3, 1.3), st.floats(0, 100), st.floats(0, 100), st.floats(0, 10), st.floats(-5, 1e5))
def test_the_factor_keeps_its_bounds(factor: float, rate: float, capacity: float, ratio: float, seconds: float) -> None:
    assert 0.3 * 0.999 <= learned_factor(factor, rate, capacity, ratio, seconds) <= 1.3 * 1.001
