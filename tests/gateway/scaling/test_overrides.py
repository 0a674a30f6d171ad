from gateway.scaling.scaling_registry import ScalingRegistry
from gateway.store.lua_script import Script
from gateway.tenancy.tenants.transactions import SCALING
from tests.gateway.scaling.scaled import scaled_world, want


async def test_what_is_set_and_cannot_be_read_is_a_pause_of_that_model_until_it_is_resumed(store_url: str) -> None:
    spoil = Script("return redis.call('HSET', KEYS[1], 'm', '[')")
    async with scaled_world(store_url) as world:
        registry = ScalingRegistry(world.store, world.config)
        one = world.controller()
        want(one, 2)
        await world.store.run(spoil, [SCALING], [])
        await world.round(one, times=2)
        assert world.launcher.starts == []
        status = await world.status()
        assert any(SCALING in warning for warning in status.warnings)
        assert (await registry.view()).models[0].paused
        await registry.resume("m", "a")
        await world.round(one)
        assert len(world.launcher.starts) == 2
