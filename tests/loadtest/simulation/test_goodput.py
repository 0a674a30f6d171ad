import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.simulation.flight import Outcome
from loadtest.simulation.goodput import Misses, find_goodput
from loadtest.simulation.simulate import ReplicaUse, Result
from loadtest.simulation.simulation_metrics import meets, summary
from routing.contracts.policy_settings import Targets


def outcome(ttft: float | None = 0.5, tpot: float | None = 0.01, prompt: int = 100, cached: int = 0) -> Outcome:
    return Outcome(0.0, prompt, 10, cached, ttft, tpot)


@pytest.mark.parametrize(
    ("which", "met"),
    [
        (outcome(), True),
        (outcome(ttft=1.025), True),
        (outcome(ttft=1.026), False),
        (outcome(ttft=3.4, prompt=10_000), True),
        (outcome(tpot=0.0501), False),
        (outcome(tpot=None), True),
        (outcome(ttft=None, tpot=None), False),
    ],
)
def test_targets(which: Outcome, met: bool) -> None:
    assert meets(which, Targets()) is met


@given(st.floats(0.02, 900), st.none() | st.floats(0.001, 5000))
def test_the_edge_is_found_from_anywhere(edge: float, start: float | None) -> None:
    found = find_goodput(lambda rate: rate <= edge, 0.01, 1000, start=start)
    assert found.bounded
    assert found.rate <= edge <= found.rate * 1.026
    assert len(found.tried) < 45


def test_the_ends_of_the_search() -> None:
    assert find_goodput(lambda rate: True, 1, 8).rate == 8
    assert not find_goodput(lambda rate: True, 1, 8).bounded
    assert find_goodput(lambda rate: False, 1, 8, start=4).rate == 0
    assert find_goodput(lambda rate: rate <= 1, 1, 8, start=8).rate == 1


def test_one_failure_by_chance_does_not_hide_a_higher_rate() -> None:
    found = find_goodput(lambda rate: rate <= 100 and not 94 < rate < 96, 1, 1000)
    assert found.rate == pytest.approx(100, rel=0.03)


@pytest.mark.parametrize("seed", range(20))
def test_noise_moves_the_answer_little(seed: int) -> None:
    rng = random.Random(seed)
    found = find_goodput(lambda rate: rate * rng.gauss(1, 0.02) <= 50, 1, 1000)
    assert found.rate == pytest.approx(50, rel=0.12)


def test_a_run_has_failed_when_more_than_a_twentieth_missed() -> None:
    misses = Misses(100, Targets())
    assert not any(misses(outcome(ttft=9.0)) for _ in range(5))
    assert not misses(outcome())
    assert misses(outcome(ttft=None))


def test_a_summary() -> None:
    outcomes = [
        Outcome(0.0, 100, 10, 50, 0.1, 0.01),
        Outcome(1.0, 300, 10, 50, 0.3, 0.09),
        Outcome(2.0, 100, 1, 0, 0.2, None),
        Outcome(4.0, 999, 1, 0, None, None),
    ]
    uses = [ReplicaUse("a", 6, 10.0, 5), ReplicaUse("b", 2, 2.0, 5)]
    found = summary(Result(outcomes, uses, 20.0, 1.0), Targets())
    assert (found.requests, found.refused, found.attainment, found.rate) == (4, 1, 0.5, 0.75)
    assert found.hit_rate == 100 / 500
    assert found.busy == pytest.approx((6 * 10 + 2 * 2) / 8 / 20)
    assert found.balance == pytest.approx(10 / 8)
    assert found.ttft is not None
    assert found.tpot is not None
    assert found.ttft.mean == pytest.approx(0.2)
    assert (found.ttft.p50, found.tpot.p50) == (0.2, 0.05)


def test_a_summary_of_nothing_served() -> None:
    found = summary(Result([outcome(None, None)], [ReplicaUse("a", 1, 0.0, 0)], 0.0, 1.0), Targets())
    assert (found.ttft, found.tpot, found.attainment, found.balance) == (None, None, 0.0, 1.0)
