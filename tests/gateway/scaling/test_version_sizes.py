"""Sizes that rollouts set, beside what the load asks for."""

import msgspec

from gateway.scaling.version_sizes import SIZES, VersionSizes, with_sizes
from gateway.store.lua_script import Script
from replicas.controller.decision import PoolDecision
from tests.gateway.scaling.scaled import scaled_world, scaler_of

SET = Script("return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])")
MOST = {"old": 8, "new": 8}
NEW = {"name": "q", "engine": "simulated", "replicas": "registered", "launcher": "local"}


def decided(old: int, new: int) -> dict[str, PoolDecision]:
    return {
        "old": PoolDecision(wanted=old, needed=old),
        "new": PoolDecision(wanted=new, needed=new, spot=new),
    }


def wanted(sizes: VersionSizes, old: int, new: int, pinned: tuple[str, ...] = ()) -> tuple[int, int]:
    found = with_sizes(decided(old, new), sizes, MOST, pinned)
    return found["old"].wanted, found["new"].wanted


def test_the_stable_version_is_sized_for_all_requests() -> None:
    # The scaler would have the load spread over both.
    assert wanted(VersionSizes(set={"new": 1}, least={"old": 2}), 3, 2) == (5, 1)
    assert wanted(VersionSizes(set={"new": 4}, least={"old": 4}), 1, 0) == (4, 4)
    assert wanted(VersionSizes(set={"new": 0}, least={"old": 0}), 6, 5) == (8, 0)
    # Nothing is said: as decided.
    assert wanted(VersionSizes(), 3, 2) == (3, 2)


def test_what_an_operator_has_set_stays() -> None:
    assert wanted(VersionSizes(set={"new": 4}, least={"old": 4}), 1, 2, ("old", "new")) == (1, 2)


def test_spot_replicas_are_no_more_than_all() -> None:
    found = with_sizes(decided(1, 5), VersionSizes(set={"new": 2}, least={"old": 1}), MOST, ())
    assert (found["new"].wanted, found["new"].spot) == (2, 2)


async def test_a_candidate_is_started_and_ended_by_its_rollout_alone(store_url: str) -> None:
    candidate = NEW | {"version": "v2", "scaling": {"min": 1, "max": 4}}
    async with scaled_world(store_url, candidate, min=1) as world:
        one = world.controller()
        scaler_of(one).wanted = {"p": 2, "q": 1}

        async def say(sizes: VersionSizes) -> None:
            await world.store.run(SET, [SIZES], ["m", msgspec.json.encode(sizes)])
            await world.round(one)

        await say(VersionSizes(set={"q": 0}, least={"p": 0}))
        pools = [order.pool for order in world.launcher.replicas.values()]
        assert pools == ["p", "p"]
        await say(VersionSizes(set={"q": 3}, least={"p": 2}))
        pools = sorted(order.pool for order in world.launcher.replicas.values())
        assert pools == ["p", "p", "q", "q", "q"]
        status = await world.status()
        assert {pool.name: pool.wanted for pool in status.pools} == {"p": 2, "q": 3}
