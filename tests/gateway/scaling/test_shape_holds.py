"""Sizes and shapes as one decision: what is held is neither stopped nor counted twice."""

from collections.abc import Mapping

import msgspec

from gateway.config.models.reshape.settings import Reshape
from gateway.config.settings import Config
from gateway.scaling.controller import Controller
from gateway.scaling.settings import scaled_models
from gateway.scaling.shape_holds import HOLDS, ShapeHolds, with_holds
from gateway.scaling.status import read_status
from gateway.store.lua_script import Script
from replicas.controller.decision import PoolDecision
from tests.gateway.scaling.scaled import World, scaled_world, scaler_of, want

PUT = Script("return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])")


async def hold(world: World, version: int = 1, **fields: object) -> None:
    raw = msgspec.json.encode(ShapeHolds(version=version, **fields))  # type: ignore[arg-type]
    await world.store.run(PUT, [HOLDS], ["m", raw])


def reshaped(config: Config, reshape: Reshape | None) -> Config:
    (model,) = config.models
    return msgspec.structs.replace(config, models=[msgspec.structs.replace(model, reshape=reshape)])


async def four_ready(world: World) -> Controller:
    world.config = reshaped(world.config, Reshape())
    controller = world.controller()
    want(controller, 4)
    await world.round(controller, times=3)
    await world.ready()
    await world.round(controller, times=3)
    return controller


async def test_a_held_replica_is_not_drained(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        controller = await four_ready(world)
        ids = sorted(world.launcher.replicas)
        await hold(world, addresses=[f"unix:/{id_}" for id_ in ids[:3]])
        want(controller, 0)
        await world.round(controller, times=3)
        states = {id_: intent.state for id_, intent in (await world.intents()).items()}
        assert [states[id_] for id_ in ids[:3]] == ["run", "run", "run"]
        assert states[ids[3]] != "run"
        _, status = await read_status(world.store)
        assert status is not None
        assert status.heeds == {"m": 1}
        await hold(world, 2)
        await world.round(controller, times=3)
        assert all(intent.state != "run" for intent in (await world.intents()).values())


async def test_what_was_held_is_let_go_once_nobody_looks_after_shapes(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        controller = await four_ready(world)
        await hold(world, addresses=[f"unix:/{id_}" for id_ in world.launcher.replicas], lost={"p": 3})
        want(controller, 0)
        await world.round(controller, times=3)
        assert [intent.state for intent in (await world.intents()).values()] == 4 * ["run"]
        controller.use(scaled_models(reshaped(world.config, None)))
        want(controller, 0)
        await world.round(controller, times=3)
        assert all(intent.state != "run" for intent in (await world.intents()).values())


async def test_a_wide_replica_counts_as_what_it_serves(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        controller = await four_ready(world)
        await hold(world, lost={"p": 3})
        want(controller, 2)
        await world.round(controller, times=3)
        assert scaler_of(controller).snapshots[-1].pools["p"].ready == 1
        # Two of them are wanted: the wide one, which is four processes, and one more.
        assert (await world.status()).pools[0].wanted == 5
        assert len(world.launcher.replicas) == 5
        # A decision that holds on is not added to again.
        scaler_of(controller).fails = ValueError("nonsense")
        await world.round(controller, times=4)
        assert (await world.status()).pools[0].wanted == 5


def wanted(pools: Mapping[str, PoolDecision]) -> dict[str, int]:
    return {name: pool.wanted for name, pool in pools.items()}


def test_sizes_that_follow_from_shapes() -> None:
    pools = {"narrow": PoolDecision(wanted=6), "wide": PoolDecision(wanted=2), "other": PoolDecision(wanted=3)}
    most = {"narrow": 8, "wide": 2, "other": 8}
    holds = ShapeHolds(version=1, set={"wide": 1}, most={"narrow": 4})
    assert wanted(with_holds(pools, holds, most, ())) == {"narrow": 4, "wide": 1, "other": 3}
    assert wanted(with_holds(pools, holds, most, ("wide",))) == {"narrow": 4, "wide": 2, "other": 3}
    assert wanted(with_holds(pools, ShapeHolds(version=1, lost={"other": 9}), most, ()))["other"] == 8
