import pytest

from gateway.scaling.intents import INTENTS
from gateway.store.lua_script import Script
from tests.gateway.scaling.scaled import scaled_world, want

SPOIL = Script("return redis.call('RPUSH', KEYS[1], 'x')")
REMOVE = Script("return redis.call('DEL', KEYS[1])")


async def test_a_store_that_refuses_a_call_is_not_called_away_and_is_told_of_once(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with scaled_world(store_url) as world:
        one = world.controller("one")
        want(one, 1)
        await world.store.run(SPOIL, [INTENTS], [])
        await world.round(one, times=3)
        assert world.launcher.starts == []
        said = [message for message in caplog.messages if "the store" in message]
        assert len(said) == 1
        assert said[0].startswith("the store refuses a call: WRONGTYPE")
        assert sum("this process is the controller" in message for message in caplog.messages) == 1
        await world.store.run(REMOVE, [INTENTS], [])
        await world.round(one)
        assert len(world.launcher.starts) == 1
        await world.store.run(REMOVE, [INTENTS], [])
        await world.store.run(SPOIL, [INTENTS], [])
        await world.round(one)
        assert sum("the store" in message for message in caplog.messages) == 2, "it is another time"
