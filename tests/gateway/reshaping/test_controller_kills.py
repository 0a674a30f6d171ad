"""Controllers that are killed after any write or order of theirs."""

import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protos.reshape import MemberState
from replicas.reshape.group_view import groups_of
from replicas.reshape.ordered_change import ENDED
from tests.gateway.reshaping.shapes import World, config_of, shapes_world
from tests.gateway.timed_store import Killed
from tests.loops import bounded


async def whole(world: World) -> None:
    """Have a group made wide, with a new controller after each that was killed, and then made narrow."""
    world.wants(300_000)
    one, number = world.controller("0"), 0
    for _ in range(400):
        try:
            await world.round(one)
        except Killed:
            number += 1
            await one.aclose()
            await world.kill()
            one = world.controller(str(number))
        assert_legal(world)
        change = (await world.records()).changes.get("m g")
        if change is None or change.phase not in ENDED:
            continue
        if world.spans() == [4]:
            world.report = type(world.report)(window=30.0, arrivals=300.0, waiting=9)
        elif change.after == [1, 1, 1, 1] and change.phase == "done":
            return
    raise AssertionError("it does not end")


def assert_legal(world: World) -> None:
    """Whatever happens to controllers, replicas stand in a legal shape, and take part in the newest change alone."""
    (view,) = groups_of(world.group.members.values()).values()
    assert view.problem == ""
    busy = {
        m.membership.change for m in view.members if m.membership.state is not MemberState.SERVING and not m.settled
    }
    assert len(busy) <= 1


def run(url: str, kills: frozenset[int]) -> list[str]:
    phases: list[str] = []

    async def body() -> None:
        # Each change that fails doubles the time for which the group is left alone.
        async with shapes_world(url, config_of(cool_down_seconds=1)) as world:
            world.kills = kills
            await whole(world)
            events = await world.events()
            changes = [event.change for event in events]
            assert changes == sorted(changes)
            phases.extend(event.phase for event in events)

    with redis.Redis.from_url(url) as client:
        client.flushall()
    bounded(body)
    return phases


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.frozensets(st.integers(1, 30), max_size=8))
def test_the_next_controller_finishes_or_aborts(store_url: str, kills: frozenset[int]) -> None:
    phases = run(store_url, kills)
    assert phases.count("done") >= 2


def test_an_undisturbed_controller_makes_two_changes(store_url: str) -> None:
    assert run(store_url, frozenset()) == ["preparing", "transforming", "done"] * 2


def test_a_controller_that_is_killed_after_each_third_act(store_url: str) -> None:
    assert run(store_url, frozenset(range(1, 60, 3))).count("done") >= 2
