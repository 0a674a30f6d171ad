"""The store's clock jumps, which is followed after a minute: a rollout is as old as before."""

import msgspec
import pytest

from gateway.scaling.leasing import lease
from gateway.store.lua_script import Script
from protos.errors import StoreUnavailable
from tests.gateway.rollouts.test_controller import TO_V2, begin
from tests.gateway.rollouts.worlds import rollout_world

JUMP = 3600.0
SLOW = msgspec.structs.replace(TO_V2, hold_seconds=300)


@pytest.mark.parametrize("is_written", [True, False])
async def test_a_jump_is_none_of_a_stages_time_though_a_write_was_not_confirmed(
    is_written: bool, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world, SLOW)
        begun = (await world.until(one, "shifting")).since - world.now
        world.jump(JUMP)
        run, failures = world.store.run, list[str]()

        async def fails(script: Script, keys: list[str], arguments: list[str | bytes]) -> object:
            if script is not lease._WRITE or one._jump == 0.0 or len(failures) > 1:
                return await run(script, keys, arguments)
            failures.append("the reply is lost")
            if is_written:
                await run(script, keys, arguments)
            raise StoreUnavailable("the reply is lost")

        monkeypatch.setattr(world.store, "run", fails)
        await world.round(one, times=70)
        rollout = (await world.records()).rollouts["m"]
        assert len(failures) == 2
        assert rollout.stage == 0
        assert rollout.since - world.now == pytest.approx(begun - 70.0, abs=1.0)
