from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicas.controller.capacity import GRID, ReplicaCapacity
from replicas.controller.fleet_capacity import FleetCapacity
from replicas.controller.memory import Memory
from replicas.controller.model_scaler import ModelScaler
from replicas.controller.needed_rate import backlog_now, expected_backlog
from replicas.controller.pool_state import PoolState, pool_states
from replicas.controller.snapshot import PoolSnapshot, Snapshot
from tests.replicas.controller.samples import demand, pool, ready, scaling

#: Replicas that serve two requests per second each, whatever comes.
PLAIN = ReplicaCapacity(
    slots=20.0,
    answer_seconds=0.0,
    prompt_seconds=0.0,
    slack=float("inf"),
    rates=tuple(2.0 * part / GRID for part in range(GRID + 1)),
    bound="nothing",
)
MODEL = scaling(pool(most=40, startup_seconds=100.0))
CAPACITY = FleetCapacity(MODEL, {"p": PLAIN})


def states(now: PoolSnapshot) -> dict[str, PoolState]:
    return pool_states(MODEL, Snapshot(now=0.0, demand=demand(1.0), pools={"p": now}), Memory())


def test_what_waits_beyond_what_runs_and_begins_in_time_is_a_backlog() -> None:
    seen = ready(2, running=50, waiting=5)
    found = Snapshot(now=0.0, demand=demand(4.0, waiting=30), pools={"p": seen})
    # 30 in the gateway and 15 beyond the 40 slots; 12 begin within 3 s.
    assert backlog_now(MODEL, found, states(seen), CAPACITY, 4.0) == pytest.approx(33.0)
    assert backlog_now(MODEL, found, states(seen), CAPACITY, 20.0) == 0.0


def test_a_backlog_grows_until_what_starts_is_ready_and_is_worked_off_then() -> None:
    alone, coming = states(ready(1)), states(ready(1, starting=[40.0] * 5))
    # Two of twelve requests/s are served, for 100 s; or for the 60 s that the starts have left, and then all are.
    assert expected_backlog(alone, CAPACITY, 12.0, 10.0, 100.0) == pytest.approx(1010.0)
    assert expected_backlog(coming, CAPACITY, 12.0, 10.0, 100.0) == pytest.approx(610.0)
    assert expected_backlog(coming, CAPACITY, 2.0, 10.0, 100.0) == 0.0
    # One that hangs is not counted on.
    assert expected_backlog(states(ready(1, starting=[400.0])), CAPACITY, 12.0, 10.0, 100.0) == pytest.approx(1010.0)


def test_no_backlog_is_made_of_a_rate_and_a_capacity_that_are_estimates() -> None:
    assert expected_backlog(states(ready(1)), CAPACITY, 12.0, 0.0, 100.0) == 0.0


@given(st.integers(0, 9), st.lists(st.floats(0, 5000), max_size=9), st.floats(0, 50), st.floats(0, 1000))
def test_more_that_starts_never_leaves_a_longer_backlog(
    count: int, ages: list[float], rate: float, backlog: float
) -> None:
    fewer, more = (states(ready(count, starting=starting)) for starting in (ages, [*ages, 50.0]))
    found = expected_backlog(fewer, CAPACITY, rate, backlog, 100.0)
    assert 0 <= expected_backlog(more, CAPACITY, rate, backlog, 100.0) <= found + 1e-6 or found == 0


def test_what_a_backlog_had_asked_for_goes_with_it() -> None:
    known = ModelScaler(MODEL)
    now = 0.0

    def wanted(count: int, waiting: int, seconds: float, starting: int = 0) -> list[int]:
        nonlocal now
        found, end, begun = [], now + seconds, now
        while now < end:
            seen = ready(count, starting=[now - begun] * starting, startup_seconds=100.0)
            decision = known.decide(Snapshot(now=now, demand=demand(9.0, waiting=waiting), pools={"p": seen}))
            found.append(decision.pools["p"].wanted)
            now += 5.0
        return found

    usual = wanted(7, 0, 900.0)[-1]
    crowded = wanted(usual, 900, 100.0)[0]
    # It has been asked for at once, not as fast as what is only expected.
    assert crowded > usual + 4
    assert set(wanted(crowded, 900, 60.0)) == {crowded}
    after = wanted(crowded, 0, 60.0)
    assert after[0] == usual
    assert all(one == other for one, other in pairwise(after))
