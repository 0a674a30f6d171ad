"""Pool sizes that the controller of rollouts asks launchers for while workers report no replicas."""

from typing import Any

import msgspec

from gateway.scaling.version_sizes import version_sizes
from tests.gateway.rollouts.test_controller import TO_V2, WORSE, begin
from tests.gateway.rollouts.worlds import World, config_of, rollout_world


def launched(name: str, version: str) -> dict[str, Any]:
    scaling = {"min": 1, "max": 8}
    fixed = {"engine": "simulated", "replicas": "registered", "launcher": "local", "scaling": scaling}
    return {"name": name, "version": version, **fixed}


async def sizes(world: World) -> dict[str, int]:
    return dict((await version_sizes(world.store))["m"].set)


async def test_no_replica_is_stopped_for_want_of_workers_that_say_it_is_there(store_url: str) -> None:
    pools = [launched("old", "v1"), launched("new", "v2")]
    async with rollout_world(store_url, config_of(pools=pools)) as world:
        one = world.controller()
        world.ready = {"v1": 4, "v2": 4}
        await begin(world, msgspec.structs.replace(TO_V2, surge=1, stages=(0.5, 1.0)))
        await world.until(one, "shifting")
        await world.round(one)
        assert (await sizes(world))["new"] == 4
        # All workers begin anew.
        before, world.ready = world.ready, {"v1": 0, "v2": 0}
        await world.round(one)
        assert (await sizes(world))["new"] == 4
        world.ready, world.compared, world.in_flight = before, WORSE, {"v1": 0, "v2": 2}
        await world.round(one)
        world.ready = {"v1": 0, "v2": 0}
        await world.round(one)
        assert (await sizes(world))["new"] == 4
        world.ready, world.in_flight = before, {"v1": 0, "v2": 0}
        await world.until(one, "rolled_back")
        await world.round(one)
        assert (await sizes(world))["new"] == 0
