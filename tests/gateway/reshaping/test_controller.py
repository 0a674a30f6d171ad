from collections.abc import Sequence

import msgspec
import pytest

from gateway.reshaping.model_round import FORGET_SECONDS
from gateway.reshaping.reshape_registry import ReshapeRegistry
from gateway.reshaping.shape_orders import ShapeOrder, place_in_store
from gateway.scaling.leasing.lease import Write
from gateway.tenancy.tenants.transactions import Entry, Step, commit, read
from protos.reshape import ReshapePhase
from tests.gateway.reshaping.shapes import ADDRESSES, config_of, shapes_world
from tests.loops import until


async def test_a_long_request_makes_a_group_wide(store_url: str) -> None:
    async with shapes_world(store_url) as world:
        controller = world.controller()
        await world.round(controller)
        assert (await world.status()).groups[0].shape == [1, 1, 1, 1]
        world.wants(300_000)
        change = await world.until(controller, "done")
        assert (change.id, change.before, change.after) == (1, [1, 1, 1, 1], [4])
        assert change.reason == "a request of 300000 tokens waits for a TP4 replica"
        assert world.spans() == [4]
        assert [event.phase for event in await world.events()] == ["preparing", "transforming", "done"]
        status = await world.status()
        assert (status.groups[0].shape, status.groups[0].held, status.totals.done) == ([4], "", 1)


async def test_advice_is_told_once_and_not_followed(store_url: str) -> None:
    async with shapes_world(store_url, config_of(mode="advise")) as world:
        controller = world.controller()
        world.wants(300_000)
        await world.round(controller, times=4)
        assert world.group.orders == []
        (event,) = await world.events()
        assert (event.phase, event.after, event.change) == ("advised", [4], 0)
        advice = (await world.status()).advice
        assert advice is not None
        assert (advice.group, advice.after, advice.gpu_seconds) == ("g", [4], 1.2)


async def test_nothing_is_decided_where_it_is_off(store_url: str) -> None:
    async with shapes_world(store_url, config_of(mode="off")) as world:
        controller = world.controller()
        world.wants(300_000)
        await world.round(controller, times=4)
        assert ((await world.status()).advice, await world.events()) == (None, [])


@pytest.mark.parametrize("trap", ["silent", "refuses", "lies", "fails", "stuck", "dies"])
async def test_a_change_that_goes_wrong_is_taken_back_and_not_tried_at_once(store_url: str, trap: str) -> None:
    async with shapes_world(store_url) as world:
        controller = world.controller()
        await world.round(controller)
        world.group.traps[ADDRESSES[2]] = trap
        world.wants(300_000)
        change = await world.until(controller, "failed")
        assert change.failure
        failed_at = world.now
        world.group.traps.clear()
        if trap in ("silent", "lies"):
            world.group.restart(ADDRESSES[2])
        orders = len(world.group.orders)
        await world.round(controller, times=20)
        assert len(world.group.orders) == orders
        assert "its last change failed" in (await world.status()).groups[0].held
        change = await world.until(controller, "done")
        assert world.now - failed_at >= 30.0
        assert (world.spans(), change.failed) == ([4], 0)
        totals = (await world.status()).totals
        assert (totals.done, totals.failed) == (1, 1)


async def test_a_replica_that_is_out_of_reach_keeps_its_group_as_it_is(store_url: str) -> None:
    async with shapes_world(store_url) as world:
        controller = world.controller()
        world.lost = {ADDRESSES[1]}
        world.wants(300_000)
        await world.round(controller, times=5)
        assert world.group.orders == []
        status = await world.status()
        assert status.groups[0].problem == "GPU 1 belongs to no replica"
        world.lost = set()
        await world.until(controller, "done")


async def test_a_group_that_was_taken_away_is_forgotten_after_a_day(store_url: str) -> None:
    async with shapes_world(store_url) as world:
        controller = world.controller()
        world.wants(300_000)
        await world.until(controller, "done")
        world.lost = set(ADDRESSES)
        world.wants()
        await world.round(controller)
        (gone,) = (await world.status()).groups
        assert gone.problem == "none of its replicas can be reached"
        world.now += FORGET_SECONDS
        await world.round(controller)
        assert (await world.status()).groups == []
        assert (await world.records()).changes == {}
        # What its replicas were ordered is not ordered again, should they come back.
        world.lost = set()
        world.report = type(world.report)(window=30.0, arrivals=300.0, waiting=9)
        assert (await world.until(controller, "done")).id == 2


async def test_the_store_away_orders_nothing_and_replicas_go_back(store_url: str) -> None:
    async with shapes_world(store_url) as world:
        controller = world.controller()
        world.wants(300_000)
        await world.until(controller, "preparing")
        world.away = True
        for _ in range(8):
            world.now += 1.0
            world.group.tick(world.now)
            await controller.renew()
            await controller.round()
        assert {order.phase for _, order in world.group.orders} == {ReshapePhase.PREPARE}
        world.away = False
        change = await world.until(controller, "failed", most=12)
        assert change.failure.startswith("grpc://r0:1: nobody ordered the next phase in time")
        assert world.spans() == [1, 1, 1, 1]


async def test_the_end_of_a_change_is_told_where_another_one_begins_in_the_same_round(store_url: str) -> None:
    async with shapes_world(store_url, config_of(mode="off")) as world:
        controller, registry = world.controller(), ReshapeRegistry(world.direct, world.config)
        await world.round(controller)
        order = await registry.apply("m", "g", (4,), "cli:root")
        await world.until(controller, "transforming")
        # An order that came between what was read and what is written: none is taken while a change is under way.
        next_ = ShapeOrder(id="next", model="m", group="g", shape=(1, 1, 1, 1), actor="cli:ada", at=world.now)
        place = place_in_store("m g")
        _, (raw,) = await read(world.direct, [place])
        step = Step(place, raw, msgspec.json.encode(next_))
        assert await commit(world.direct, [step], Entry("cli:ada", "reshape.apply", "m g"))
        await world.round(controller)
        change = await world.change()
        assert (change.id, change.phase, change.order) == (2, "preparing", "next")
        told = [(event.change, event.phase) for event in await world.events()]
        assert told == [(1, "preparing"), (1, "transforming"), (1, "done"), (2, "preparing")]
        assert (await world.status()).totals.done == 1
        followed = (await registry.followed(order)).change
        assert followed is not None
        assert (followed.id, followed.phase, followed.is_over) == (1, "done", True)


async def test_what_was_said_to_wait_before_a_change_has_ended_makes_no_other_one(store_url: str) -> None:
    async with shapes_world(store_url) as world:
        controller, registry = world.controller(), ReshapeRegistry(world.direct, world.config)
        world.wants(300_000)
        await world.until(controller, "done")
        world.wants()
        await world.round(controller)
        await registry.apply("m", "g", (1, 1, 1, 1), "cli:root")
        world.wants(300_000)
        world.report_age = 2.0
        await world.until(controller, "done")
        await world.round(controller)
        assert ((await world.change()).id, world.spans()) == (2, [1, 1, 1, 1])
        # It still waits.
        world.report_age = 0.0
        await world.round(controller)
        assert (await world.change()).id == 3


async def test_a_wide_group_goes_back_when_short_requests_want_it(store_url: str) -> None:
    async with shapes_world(store_url) as world:
        controller = world.controller()
        world.wants(300_000)
        await world.until(controller, "done")
        world.wants()
        await world.round(controller, times=40)
        assert world.spans() == [4]
        world.report = type(world.report)(window=30.0, arrivals=300.0, waiting=9)
        change = await world.until(controller, "done")
        assert (change.id, change.before, change.after) == (2, [4], [1, 1, 1, 1])
        assert world.spans() == [1, 1, 1, 1]


async def test_a_long_request_that_runs_keeps_its_replica_wide(store_url: str) -> None:
    async with shapes_world(store_url) as world:
        controller = world.controller()
        world.wants(300_000)
        await world.until(controller, "done")
        world.longest = {ADDRESSES[0]: 300_000}
        world.report = type(world.report)(window=30.0, arrivals=300.0, waiting=9)
        await world.round(controller, times=60)
        assert world.spans() == [4]


async def test_numbers_go_on_from_what_replicas_were_ordered(store_url: str) -> None:
    async with shapes_world(store_url) as world:
        for address in world.group.members:
            world.group._say(address, change=41)
        world.wants(300_000)
        assert (await world.until(world.controller(), "done")).id == 42


async def test_a_webhook_hears_how_changes_have_ended_also_from_the_next_controller(store_url: str) -> None:
    async with shapes_world(store_url, config_of(webhook="http://hook")) as world:
        one = world.controller()
        world.wants(300_000)
        await world.until(one, "done")
        await until(lambda: len(world.posted) == 1)
        ((url, told),) = world.posted
        assert (url, told["type"], told["phase"], told["change"]) == ("http://hook", "reshape", "done", 1)
        await one.aclose()
        await world.kill()
        await world.round(world.controller("another"))
        await until(lambda: len(world.posted) == 2)
        assert world.posted[1] == world.posted[0]


async def test_a_webhook_hears_of_an_end_of_which_the_store_did_not_say_that_it_has_it(store_url: str) -> None:
    async with shapes_world(store_url, config_of(webhook="http://hook")) as world:
        controller = world.controller()
        world.wants(300_000)
        await world.until(controller, "transforming")
        world.unsure = True
        await world.round(controller)
        assert (await world.change()).phase == "done"
        world.unsure = False
        await world.round(controller, times=3)
        await until(lambda: len(world.posted) == 1)
        assert (world.posted[0][1]["phase"], world.posted[0][1]["change"]) == ("done", 1)
        assert [event.phase for event in await world.events()] == ["preparing", "transforming", "done"]


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
async def test_a_jump_of_the_stores_clock_that_stays_makes_no_change_older(store_url: str, jump: float) -> None:
    async with shapes_world(store_url, config_of(mode="off", transform_seconds=300)) as world:
        controller, registry = world.controller(), ReshapeRegistry(world.store, world.config)
        await world.round(controller)
        await registry.apply("m", "g", (4,), "cli:root")
        world.group.traps = {ADDRESSES[1]: "stuck"}
        begun = (await world.until(controller, "transforming")).since
        world.ahead = jump
        for lost_writes in (60, 1, 150):
            world.unsure = lost_writes == 1
            await world.round(controller, times=lost_writes)
        change = await world.change()
        assert change.phase == "transforming"
        assert change.since == pytest.approx(begun + jump, abs=3.0)
        change = await world.until(controller, "failed", most=120)
        assert change.failure.startswith("it was not done within 300 s")


async def test_what_a_clock_that_was_ahead_has_written_is_of_now_at_most(store_url: str) -> None:
    async with shapes_world(store_url) as world:
        one = world.controller()
        world.wants(300_000)
        await world.until(one, "done")
        await ReshapeRegistry(world.direct, world.config).apply("m", "g", (1, 1, 1, 1), "cli:root")
        world.wants()
        await world.until(one, "done")
        await world.kill()
        world.ahead = -86_400.0
        another = world.controller("another")
        await world.round(another)
        world.wants(300_000)
        await world.until(another, "preparing", most=5)
        await world.until(another, "done")
        assert world.spans() == [4]


async def test_an_order_is_as_old_as_the_store_says_also_where_its_clock_has_jumped(store_url: str) -> None:
    async with shapes_world(store_url, config_of(mode="off")) as world:
        controller, registry = world.controller(), ReshapeRegistry(world.store, world.config)
        await world.round(controller)
        world.ahead = -3600.0
        await world.round(controller)
        await registry.apply("m", "g", (4,), "cli:root")
        await world.until(controller, "done")
        assert world.spans() == [4]


async def test_a_reload_in_the_middle_of_a_round_keeps_no_order_back(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shapes_world(store_url) as world:
        controller = world.controller()
        await world.round(controller)
        write = controller.lease.write

        async def written(writes: Sequence[Write]) -> None:
            await write(writes)
            controller.use(msgspec.structs.replace(world.config, models=()))

        world.wants(300_000)
        monkeypatch.setattr(controller.lease, "write", written)
        await world.round(controller)
        assert {order.phase for _, order in world.group.orders} == {ReshapePhase.PREPARE}
        await world.round(controller, times=2)
        assert len(world.group.orders) == 4
