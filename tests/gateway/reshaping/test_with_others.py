"""Shapes beside rollouts and the controller of sizes: nothing is changed behind another one's back."""

import msgspec
import pytest

from gateway.config.settings import Config
from gateway.reshaping.reshape_registry import ReshapeRegistry
from gateway.rollouts.rollout_registry import RolloutRegistry
from gateway.scaling.intents import INTENTS, Intent
from gateway.scaling.shape_holds import ShapeHolds, shape_holds
from gateway.scaling.status import STATUS, ControllerStatus, ScalingStatus
from gateway.store.lua_script import Script
from protos.errors import Conflict
from protos.types import Role, Shape
from routing.rollouts.settings import Rollout as RolloutSettings
from tests.gateway.reshaping.shapes import ADDRESSES, World, config_of, shapes_world

PUT = Script("return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])")
SET = Script("return redis.call('SET', KEYS[1], ARGV[1])")


def versioned() -> Config:
    config = config_of()
    (model,) = config.models
    (pool,) = model.pools
    pools = (
        msgspec.structs.replace(pool, version="v1"),
        msgspec.structs.replace(pool, name="q", version="v2", replicas=("grpc://other:1",)),
    )
    return msgspec.structs.replace(config, models=(msgspec.structs.replace(model, pools=pools, stable="v1"),))


async def test_nothing_is_changed_during_a_rollout(store_url: str) -> None:
    config = versioned()
    async with shapes_world(store_url, config) as world:
        controller = world.controller()
        await world.round(controller, times=4)
        settings = RolloutSettings(model="m", to="v2")
        await RolloutRegistry(world.store, config).start(settings, "cli:ada")
        world.wants(300_000)
        await world.round(controller, times=4)
        assert world.group.orders == []
        with pytest.raises(Conflict, match="a rollout of m to v2 is under way"):
            await ReshapeRegistry(world.store, config).apply("m", "g", [4], "cli:ada")


def intent(world: World, number: int, state: str = "run") -> Intent:
    made = Intent(
        id=f"p-{number}",
        model="m",
        pool="p",
        shape=Shape(),
        role=Role.BOTH,
        version="",
        spot=False,
        made=world.now,
        since=world.now,
        seen=True,
        ready=True,
        address=ADDRESSES[number],
    )
    return msgspec.structs.replace(made, state=state)


async def put_intents(world: World, *states: str) -> None:
    for number, state in enumerate(states):
        one = intent(world, number, state)
        await world.direct.run(PUT, [INTENTS], [one.id, msgspec.json.encode(one)])


async def heed(world: World, version: int) -> None:
    status = ScalingStatus(
        at=world.now, controller=ControllerStatus(name="s", since=0.0, token=1), models=[], heeds={"m": version}
    )
    await world.direct.run(SET, [STATUS], [msgspec.json.encode(status)])


async def held(world: World) -> ShapeHolds:
    return (await shape_holds(world.direct))["m"]


async def test_a_change_of_launched_replicas_begins_once_the_controller_of_sizes_heeds_it(store_url: str) -> None:
    async with shapes_world(store_url) as world:
        controller = world.controller()
        await put_intents(world, "run", "run", "run", "run")
        world.wants(300_000)
        await heed(world, 0)
        assert (await world.until(controller, "claimed")).id == 1
        assert sorted((await held(world)).addresses) == ADDRESSES
        await world.round(controller, times=3)
        assert world.group.orders == []
        await heed(world, (await held(world)).version)
        await world.until(controller, "done")
        # One wide replica in place of four serves 0.31 times as much: three of the four processes count for nothing.
        await world.round(controller)
        assert dict((await held(world)).lost) == {"p": 3}
        assert sorted((await held(world)).addresses) == ADDRESSES


async def test_a_controller_of_sizes_that_does_not_heed_it_ends_a_change(store_url: str) -> None:
    async with shapes_world(store_url) as world:
        controller = world.controller()
        await put_intents(world, "run", "run", "run", "run")
        world.wants(300_000)
        for _ in range(30):
            await heed(world, 0)
            await world.round(controller)
        change = await world.change()
        assert (change.phase, change.failure) == ("failed", "the controller of sizes has not heeded it for 15 s")
        assert world.group.orders == []
        assert (await held(world)).addresses == []


async def test_without_a_controller_of_sizes_its_lease_is_waited_for(store_url: str) -> None:
    async with shapes_world(store_url) as world:
        controller = world.controller()
        await put_intents(world, "run", "run", "run", "run")
        world.wants(300_000)
        await world.until(controller, "claimed")
        claimed = world.now
        await world.until(controller, "preparing")
        assert world.now - claimed > 6.0


async def test_what_the_controller_of_sizes_ends_is_not_changed(store_url: str) -> None:
    async with shapes_world(store_url) as world:
        controller = world.controller()
        await put_intents(world, "run", "run", "drain", "run")
        world.wants(300_000)
        await world.round(controller, times=4)
        assert (await world.status()).groups[0].held == f"the controller of sizes is draining {ADDRESSES[2]}"
        await put_intents(world, "run", "run", "run", "run")
        await world.until(controller, "claimed")
        # It has decided in between.
        await put_intents(world, "run", "stop", "run", "run")
        change = await world.until(controller, "failed")
        assert change.failure == f"the controller of sizes is ending {ADDRESSES[1]}"
        assert world.group.orders == []


async def test_what_is_not_heard_for_a_moment_is_held_as_it_was(store_url: str) -> None:
    async with shapes_world(store_url) as world:
        controller = world.controller()
        await put_intents(world, "run", "run", "run", "run")
        world.wants(300_000)
        await world.until(controller, "claimed")
        await heed(world, (await held(world)).version)
        await world.until(controller, "done")
        await world.round(controller)
        whole = await held(world)
        for lost in ({ADDRESSES[0]}, {ADDRESSES[2]}, set(ADDRESSES)):
            world.lost = lost
            await world.round(controller, times=5)
            assert await held(world) == whole
            world.lost = set()
            await world.round(controller)
        # Another controller has not heard them yet.
        world.lost = {ADDRESSES[0]}
        await world.kill()
        another = world.controller("another")
        await world.round(another, times=5)
        assert await held(world) == whole
        # What has gone for good is let go.
        world.lost = set(ADDRESSES)
        await world.round(another, times=12)
        assert ((await held(world)).addresses, (await held(world)).lost) == ([], {})
