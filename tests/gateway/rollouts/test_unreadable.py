"""What another program version has left in the store."""

from typing import Any

import msgspec
import pytest
import redis

from gateway.tenancy.tenants.transactions import ROLLOUT_ORDERS
from protos.errors import Conflict
from routing.rollouts.rollout import ROLLOUTS, STATUS, Told
from routing.rollouts.split import SPLITS
from tests.gateway.rollouts.test_controller import TO_V2, WORSE, begin
from tests.gateway.rollouts.worlds import rollout_world


def spoil(store_url: str, key: str, **fields: Any) -> None:
    """Write a model's record as a later program version might, with what this one does not know."""
    with redis.Redis.from_url(store_url) as store:
        record = msgspec.json.decode(store.hget(key, "m") or b"{}")
        store.hset(key, "m", msgspec.json.encode({**record, "novel": 1, **fields}))


async def test_a_rollout_that_cannot_be_read_is_named_waits_and_is_cleared(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world)
        await world.until(one, "shifting")
        before = await world.split()
        spoil(store_url, ROLLOUTS)
        await world.round(one, times=3)
        # The controller goes on, and workers by the last split.
        assert (await world.records()).controller
        assert await world.split() == before
        assert caplog.text.count(f"cannot read what the store has of m in {ROLLOUTS}; `penstock rollout abort m`") == 1
        (model,) = await world.registry.models()
        assert model.unreadable == [ROLLOUTS]
        for ask in (world.registry.start(TO_V2, "cli:me"), world.registry.set_wish("m", "pause", "cli:me")):
            with pytest.raises(Conflict, match=f"in {ROLLOUTS}"):
                await ask
        view = await world.registry.set_wish("m", "abort", "cli:me")
        assert (view.rollout.phase, view.rollout.candidate, view.rollout.stable) == ("rolled_back", "v2", "v1")
        split = await world.split()
        assert (split.stable, split.candidate, split.share) == ("v1", "", 0.0)
        assert split.epoch > before.epoch
        assert (await world.events())[
            -1
        ].reason == f"cli:me has cleared what this program version cannot read in {ROLLOUTS}"
        await world.round(one, times=3)
        (model,) = await world.registry.models()
        assert model.unreadable == []
        assert (await world.records()).rollouts["m"].phase == "rolled_back"
        # Another one begins as ever.
        await begin(world)
        done = await world.until(one, "done")
        assert done.promoted
        assert done.epoch > split.epoch


async def test_an_order_that_cannot_be_read_keeps_nobody_from_an_abort(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world)
        await world.until(one, "shifting")
        spoil(store_url, ROLLOUT_ORDERS)
        await world.round(one, times=2)
        with pytest.raises(Conflict, match=ROLLOUT_ORDERS):
            await begin(world)
        await world.registry.set_wish("m", "abort", "cli:me")
        await world.until(one, "rolled_back")
        # One that no controller has taken is cleared, and the rollout before stays.
        spoil(store_url, ROLLOUT_ORDERS)
        await world.round(one)
        await world.registry.set_wish("m", "abort", "cli:me")
        (model,) = await world.registry.models()
        assert model.unreadable == []
        await begin(world)
        assert (await world.until(one, "done")).promoted


async def test_a_rollout_whose_order_cannot_be_read_waits_and_is_watched(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world)
        await world.until(one, "shifting")
        await world.registry.set_wish("m", "pause", "cli:me")
        await world.round(one)
        spoil(store_url, ROLLOUT_ORDERS)
        await world.round(one, seconds=10.0, times=5)
        rollout = (await world.records()).rollouts["m"]
        assert (rollout.phase, rollout.stage, rollout.paused is not None) == ("shifting", 0, True)
        world.compared = WORSE
        await world.round(one)
        assert (await world.split()).share == 0.0


async def test_a_split_that_cannot_be_read_is_written_again(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world)
        await world.until(one, "done")
        spoil(store_url, SPLITS, stable=7)
        assert (await world.registry.models())[0].unreadable == [SPLITS]
        await world.round(one)
        assert ((await world.split()).stable, (await world.registry.models())[0].unreadable) == ("v2", [])


@pytest.mark.parametrize("told", [None, {"novel": 1}])
async def test_what_another_version_may_be_reading_is_not_cleared(store_url: str, told: dict[str, int] | None) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world)
        await world.until(one, "shifting")
        spoil(store_url, ROLLOUTS)
        with redis.Redis.from_url(store_url) as store:
            status = msgspec.json.encode(told or Told(at=world.now, controller="another"))
            store.set(STATUS, status)
        with pytest.raises(Conflict, match="program version"):
            await world.registry.set_wish("m", "abort", "cli:me")
        # A controller of this version takes over.
        await world.round(one)
        await world.registry.set_wish("m", "abort", "cli:me")
