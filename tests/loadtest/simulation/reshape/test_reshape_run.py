"""Small runs of groups in virtual time."""

import pytest

from loadtest.reproduce.amoeba_loads import FLEET, alternation, code_with_long
from loadtest.simulation.reshape.reshape_run import arrangements, run
from loadtest.simulation.simulated_requests import TimedRequest


def test_all_arrangements_of_two_groups_of_four() -> None:
    found = list(arrangements(FLEET))
    assert len(found) == len({str(one) for one in found}) == 10
    assert all(sum(widths) == 4 for one in found for widths in one)


def test_a_request_that_no_narrow_replica_holds_is_served_and_the_others_go_on() -> None:
    short = [TimedRequest(0.5 * at, 1000, 60) for at in range(60)]
    requests = sorted([*short, TimedRequest(5.0, 100_000, 50)], key=lambda request: request.arrival)
    result = run(FLEET, requests, None)
    assert result.refused == 0
    assert result.long_ttft is not None and result.long_ttft < 30
    assert [changed.change.widens for changed in result.changes][:1] == [True]
    assert run(FLEET, requests, [[1] * 4] * 2).refused == 1


def test_one_that_not_even_the_widest_holds_is_refused() -> None:
    requests = [TimedRequest(0.0, 500, 5), TimedRequest(1.0, 2_000_000, 5), TimedRequest(2.0, 500, 5)]
    assert run(FLEET, requests, None).refused == 1


def test_none_is_lost_over_many_changes() -> None:
    requests = alternation(9.0, 300, seed=3)
    result = run(FLEET, requests, None)
    assert result.refused == 0
    assert result.changes


def test_throughput_hardly_hangs_on_what_ends_last() -> None:
    steady = [TimedRequest(0.5 * at, 1000, 20) for at in range(80)]
    plain = run(FLEET, steady, [[1] * 4] * 2)
    assert plain.rate == pytest.approx(2040, rel=0.05)
    late = run(FLEET, [*steady, TimedRequest(40.0, 20_000, 20), TimedRequest(45.0, 1000, 20)], [[1] * 4] * 2)
    assert 0.9 * plain.rate < late.rate < 1.1 * plain.rate


def test_dear_changes_are_made_less_often_or_cost_more() -> None:
    requests = code_with_long(4.0, 300, seed=2)
    cheap, dear = run(FLEET, requests, None), run(FLEET, requests, None, dearer=41.0)
    assert dear.held_up >= cheap.held_up or len(dear.changes) < len(cheap.changes)
