import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

import routing.transports.session_transport
from protos.errors import ReplicaUnavailable
from protos.types import Failure
from routing.contracts.policy import RouteRequest
from routing.dispatch.dispatch import RequestHandle, dispatch
from routing.dispatch.dispatch_context import DispatchContext
from routing.dispatch.retry_budget import MOST, PER_REQUEST, PER_SECOND, RetryBudget
from routing.policies.round_robin import RoundRobin
from tests.fakes import RefusesWith, SilentEngine
from tests.harness import serving, submit_of
from tests.loops import until
from tests.routing.fleets import fleet_at


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.lists(st.one_of(st.floats(0.0, 5.0), st.sampled_from(["asked", "take"])), max_size=300), st.integers(0, 1100))
def test_retries_are_a_part_of_the_requests_and_of_the_time(moves: list[float | str], first: int) -> None:
    clock = Clock()
    budget = RetryBudget(clock)
    taken, allowed = sum(budget.take() for _ in range(first)), MOST
    assert taken == min(first, MOST)
    for move in moves:
        if move == "asked":
            budget.add_request()
            allowed += PER_REQUEST
        elif move == "take":
            taken += budget.take()
        else:
            assert isinstance(move, float)
            clock.now += move
            allowed += PER_SECOND * move
        assert taken <= allowed + 1e-6


def test_what_is_spent_comes_back_with_time_and_with_requests() -> None:
    clock = Clock()
    budget = RetryBudget(clock)
    while budget.take():
        pass
    clock.now = 1 / PER_SECOND
    assert budget.take()
    assert not budget.take()
    for _ in range(round(1 / PER_REQUEST) + 1):
        budget.add_request()
    assert budget.take()
    clock.now = 1e9
    assert sum(budget.take() for _ in range(2000)) == MOST


async def test_a_dead_replica_costs_none_of_the_requests_that_had_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing.transports.session_transport, "FIRST_RETRY_SECONDS", 60.0)

    dying = [SilentEngine(), SilentEngine()]
    async with (
        serving(dying[0]) as (first, one),
        serving(dying[1]) as (second, two),
        fleet_at(one, two) as fleet,
    ):
        policy = RoundRobin()
        dispatch_context = DispatchContext(fleet, policy)
        tasks = [
            asyncio.create_task(dispatch(dispatch_context, RouteRequest("r", 3, 8), submit_of(8), RequestHandle()))
            for _ in range(512)
        ]
        await until(lambda: len(dying[0].submitted) == len(dying[1].submitted) == 256)
        await first.close()
        await until(lambda: len(dying[1].submitted) == 512)
        assert not any(task.done() for task in tasks)
        # The budget would see them through a second death, if there were anywhere to go.
        assert dispatch_context.budget._left >= 256
        await second.close()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(result, ReplicaUnavailable)


async def test_beyond_the_budget_a_failure_is_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("routing.dispatch.retry_budget.PER_SECOND", 0.0)

    refusing, other = RefusesWith(Failure("draining", "no")), SilentEngine()
    async with serving(refusing) as (_, one), serving(other) as (_, two), fleet_at(one, two) as fleet:
        dispatch_context = DispatchContext(fleet, RoundRobin())
        while dispatch_context.budget.take():
            pass
        with pytest.raises(ReplicaUnavailable):
            await dispatch(dispatch_context, RouteRequest("r", 3, 8), submit_of(8), RequestHandle())
        assert (len(refusing.submitted), other.submitted) == (1, {})
