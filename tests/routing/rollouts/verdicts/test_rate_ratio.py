"""Intervals that hold at every look: the probability that one of them ever misses is bounded."""

from math import exp, log
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from routing.rollouts.verdicts.hard_bound import log_evidence
from routing.rollouts.verdicts.rate_ratio import Cell, rate_ratio


def test_it_ever_misses_equal_rates_as_often_as_allowed() -> None:
    """The rate drifts and the candidate's share grows, in forty looks at each of 60 runs."""
    random, error, missed = Random(3), 0.05, 0
    for _ in range(60):
        cells: list[Cell] = []
        for look in range(40):
            share = 0.1 + 0.01 * look
            rate = 0.02 * (1.0 + look / 20)
            arms = [random.random() < share for _ in range(20)]
            events = [arm for arm in arms if random.random() < rate]
            if events:
                cells.append(Cell(len(events), sum(events), sum(arms) / len(arms)))
                if rate_ratio(cells, error).evidence >= -log(error):
                    missed += 1
                    break
    assert missed <= 60 * error


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20), st.floats(0.01, 0.99)), min_size=1, max_size=8))
@settings(max_examples=60)
def test_the_interval_has_the_likeliest_ratio(parts: list[tuple[int, int, float]]) -> None:
    cells = [Cell(max(mine, all_), min(mine, all_), share) for mine, all_, share in parts]
    found = rate_ratio(cells, 0.01)
    assert found.low >= 0.0
    assert found.high is None or found.high >= found.low
    wider = rate_ratio(cells, 0.001)
    assert wider.low <= found.low + 1e-9
    assert wider.high is None or (found.high is not None and wider.high >= found.high - 1e-9)


def test_no_events_say_nothing() -> None:
    found = rate_ratio([], 0.01)
    assert (found.low, found.high, found.evidence) == (0.0, None, 0.0)


def test_a_rate_at_its_bound_is_hardly_ever_found_over_it() -> None:
    random, error = Random(4), 0.05
    over = 0
    for _ in range(200):
        events = 0
        for among in range(1, 200):
            events += random.random() < 0.01
            if log_evidence(events, among, 0.01) >= -log(error):
                over += 1
                break
    assert over <= 200 * error
    assert exp(log_evidence(3, 3, 0.01)) > 10_000
    assert log_evidence(0, 1000, 0.01) == 0.0
