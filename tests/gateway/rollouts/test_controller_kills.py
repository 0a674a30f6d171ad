"""Controllers that are killed after any write of theirs."""

import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from routing.rollouts.facts import Compared
from tests.gateway.rollouts.test_controller import begin
from tests.gateway.rollouts.worlds import AS_GOOD, World, causes, rollout_world, shares
from tests.gateway.timed_store import Killed
from tests.loops import bounded

WORSE = Compared(kind="worse", reason="as told")


async def end(world: World, *, worse_at: float) -> tuple[list[float], list[str], str]:
    """Go to the end, with a new controller after each that was killed; `worse_at` is a share."""
    await begin(world)
    one, number = world.controller("0"), 0
    for _ in range(100):
        rollout = (await world.records()).rollouts.get("m")
        if rollout is not None and rollout.phase in ("done", "rolled_back"):
            assert rollout.steps == len(rollout.history)
            return shares(rollout.history), causes(rollout.history), (await world.split()).stable
        world.compared = WORSE if rollout is not None and rollout.share == worse_at else AS_GOOD
        try:
            await world.round(one)
        except Killed:
            number += 1
            await one.aclose()
            await world.kill()
            one = world.controller(str(number))
        # Whatever happens to controllers, workers find a split that somebody meant.
        records = await world.records()
        split, stored = records.splits.get("m"), records.rollouts.get("m")
        if split is not None and stored is not None:
            assert (split.epoch, split.share) == (stored.epoch, stored.share)
    raise AssertionError("it does not end")


def run(url: str, kills: frozenset[int], worse_at: float) -> tuple[list[float], list[str], str]:
    found = []

    async def whole() -> None:
        async with rollout_world(url) as world:
            world.kills = kills
            found.append(await end(world, worse_at=worse_at))

    with redis.Redis.from_url(url) as client:
        client.flushall()
    bounded(whole)
    return found[0]


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.frozensets(st.integers(1, 40), max_size=8), st.sampled_from([2.0, 0.5]))
def test_the_next_controller_comes_to_the_same_end(store_url: str, kills: frozenset[int], worse_at: float) -> None:
    assert run(store_url, kills, worse_at) == run(store_url, frozenset(), worse_at)


def test_controllers_that_are_killed_after_every_second_write(store_url: str) -> None:
    undisturbed = run(store_url, frozenset(), 2.0)
    assert undisturbed[2] == "v2"
    assert run(store_url, frozenset(range(1, 200, 2)), 2.0) == undisturbed
