from typing import cast

import msgspec
import pytest

from gateway.scaling.intents import INTENTS, MOST_SET_ASIDE, SET_ASIDE, SetAside, scaling_drains
from gateway.store.lua_script import Script
from tests.gateway.scaling.scaled import World, scaled_world, want

ENTRIES = Script.load("gateway.scaling", "lua/entries.lua")


async def kept(world: World) -> list[SetAside]:
    """The unreadable intents that the store keeps, the newest first."""
    found = cast("list[bytes]", await world.store.run(ENTRIES, [SET_ASIDE], ["1000"]))
    return [msgspec.json.decode(raw, type=SetAside) for raw in found]


@pytest.mark.parametrize("spoiled", ["{", "\x00", '{"id": 1}'])
async def test_an_intent_that_cannot_be_read_is_set_aside_and_its_replica_taken_over(
    store_url: str, spoiled: str, caplog: pytest.LogCaptureFixture
) -> None:
    spoil = Script("return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])")
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 2)
        await world.round(one)
        await world.ready()
        await world.round(one)
        first, second = world.launcher.starts
        await world.store.run(spoil, [INTENTS], [first, spoiled])
        assert await scaling_drains(world.store) == [], "workers go on with the other drains"
        await world.round(one)
        assert await kept(world) == [SetAside(first, spoiled)]
        assert [message for message in caplog.messages if first in message and INTENTS in message]
        for _ in range(4):
            await world.ready()
            await world.round(one)
        assert set(await world.intents()) == {first, second}
        assert (world.launcher.starts, world.launcher.stops) == ([first, second], [])
        (pool,) = (await world.status()).pools
        assert pool.ready == 2
        want(one, 3)
        await world.round(one)
        assert len(world.launcher.starts) == 3, "all else goes on"


async def test_an_intent_whose_id_is_no_text_is_set_aside_once(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    spoil = Script("return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])")
    async with scaled_world(store_url) as world:
        one = world.controller()
        await world.store.run(spoil, [INTENTS], [b"\xff", "{"])
        await world.round(one, times=3)
        assert await kept(world) == [SetAside("\\xff", "{")]
        assert await world.store.hgetall(INTENTS) == {}
        assert sum("\\xff" in message for message in caplog.messages) == 1


async def test_of_intents_that_were_set_aside_the_last_are_kept(store_url: str) -> None:
    spoil = Script("for i = 1, #ARGV do redis.call('HSET', KEYS[1], ARGV[i], '{') end return 1")
    async with scaled_world(store_url) as world:
        one = world.controller()
        for start in range(0, 400, 100):
            await world.store.run(spoil, [INTENTS], [f"p-{number:03}" for number in range(start, start + 100)])
            await world.round(one)
        found = await kept(world)
        assert MOST_SET_ASIDE <= len(found) <= 2 * MOST_SET_ASIDE
        assert found[0].id == "p-399"
