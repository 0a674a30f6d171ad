from typing import Any

import msgspec
import pytest
import redis

from gateway.tenancy.tenants.transactions import ROLLOUT_ORDERS
from protos.errors import Conflict, InvalidRequest, RolloutNotFound
from tests.gateway.rollouts.test_controller import TO_V2, begin
from tests.gateway.rollouts.worlds import config_of, of, rollout_world


async def test_nobody_takes_an_abort_back_that_no_controller_has_seen_yet(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world)
        await world.until(one, "shifting")
        await world.registry.set_wish("m", "promote", "cli:me")
        await world.registry.set_wish("m", "abort", "cli:me")
        for wish in ("promote", "pause", "run"):
            with pytest.raises(Conflict, match=r"The rollout is being aborted\. It cannot be"):
                await world.registry.set_wish("m", wish, "cli:other")
        # Again is no contradiction.
        await world.registry.set_wish("m", "abort", "cli:other")
        back = await world.until(one, "rolled_back")
        assert of(back.history)["rolling_back"].cause == "aborted"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"surge": 0}, "surge: "),
        ({"stages": tuple((number + 1) / 100 for number in range(100))}, "stages: "),
        ({"min_requests": -1}, "min_requests: "),
        ({"stages": (0.5, 1.5)}, r"stages\[1\]: |stages: "),
    ],
)
async def test_what_no_controller_could_read_is_no_order(changes: dict[str, Any], message: str, store_url: str) -> None:
    async with rollout_world(store_url) as world:
        await world.say()
        with pytest.raises(InvalidRequest, match=message):
            await world.registry.start(msgspec.structs.replace(TO_V2, **changes), "cli:me")
        assert not (await world.records()).orders


@pytest.mark.parametrize("is_older", [True, False])
async def test_a_rollout_whose_order_the_store_has_lost_goes_on_and_can_be_aborted(
    is_older: bool, store_url: str
) -> None:
    """Orders are on another shard of the store than rollouts: what took its place may have missed the last one."""
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world)
        await world.registry.set_wish("m", "abort", "cli:me")
        await world.until(one, "rolled_back")
        with redis.Redis.from_url(store_url) as store:
            older = store.hget(ROLLOUT_ORDERS, "m")
            await begin(world)
            begun = await world.until(one, "shifting")
            store.hdel(ROLLOUT_ORDERS, "m")
            if is_older:
                store.hset(ROLLOUT_ORDERS, "m", older or b"")
        await world.round(one)
        assert (await world.registry.view("m")).rollout.id == begun.id
        with pytest.raises(Conflict, match="a rollout of m to v2 is under way"):
            await begin(world)
        await world.registry.set_wish("m", "abort", "cli:me")
        await world.round(one)
        assert (await world.split()).share == 0.0
        back = await world.until(one, "rolled_back")
        assert (back.id, of(back.history)["rolling_back"].cause) == (begun.id, "aborted")


async def test_an_older_order_begins_nothing_once_the_rollout_is_over_whose_order_the_store_has_lost(
    store_url: str,
) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world)
        await world.until(one, "done")
        with redis.Redis.from_url(store_url) as store:
            older = store.hget(ROLLOUT_ORDERS, "m")
            await world.registry.start(msgspec.structs.replace(TO_V2, to="v1"), "cli:me")
            back = await world.until(one, "shifting")
            store.hset(ROLLOUT_ORDERS, "m", older or b"")
        await world.until(one, "done")
        await world.round(one, times=5)
        # No third one begins, which would be to v2 again, nor is one shown or waited for.
        assert (await world.split()).stable == "v1"
        view = await world.registry.view("m")
        assert (view.rollout.id, view.taken, view.rollout.phase) == (back.id, True, "done")
        with pytest.raises(RolloutNotFound, match="No rollout of 'm' is under way"):
            await world.registry.set_wish("m", "abort", "cli:me")
        await begin(world)
        third = await world.until(one, "shifting")
        assert (third.id != back.id, third.candidate) == (True, "v2")


async def test_an_order_for_what_the_file_has_made_stable_meanwhile_ends_at_once(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        await begin(world)
        world.use(config_of(stable="v2"))
        back = await world.until(world.controller(), "rolled_back")
        event = of(back.history)["rolling_back"]
        assert (event.cause, event.reason) == ("superseded", "v2 is the stable version already")
        assert (await world.split()).stable == "v2"


@pytest.mark.parametrize(("most", "room"), [((1, 8), 2), ((2, 1), 3), ((4, 1), None)])
async def test_a_candidate_without_room_for_both_phases_is_refused(
    most: tuple[int, int], room: int | None, store_url: str
) -> None:
    def pool(name: str, version: str, role: str, most: int) -> dict[str, Any]:
        fixed = {"engine": "simulated", "replicas": "registered", "launcher": "local"}
        return {"name": name, "version": version, "role": role, "scaling": {"min": 0, "max": most}, **fixed}

    pools = [pool("old", "v1", "prefill", 8), pool("old-d", "v1", "decode", 8)]
    pools += [pool("new", "v2", "prefill", most[0]), pool("new-d", "v2", "decode", most[1])]
    async with rollout_world(store_url, config_of(pools=pools)) as world:
        # Those of the other phase have not begun yet.
        world.ready = {"v1": 4, "v2": 0}
        await world.say()
        if room is None:
            await world.registry.start(TO_V2, "cli:me")
            return
        message = (
            rf"to: the pools of v2 may have {room} replicas \(`scaling.max`\), and 4 are needed beside the 4 of v1"
        )
        with pytest.raises(InvalidRequest, match=message):
            await world.registry.start(TO_V2, "cli:me")
