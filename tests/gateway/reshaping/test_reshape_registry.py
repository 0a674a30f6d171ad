import msgspec
import pytest

from gateway.fleets.drains import Drain
from gateway.fleets.drains import place_of as drain_place
from gateway.reshaping.change import Event
from gateway.reshaping.reshape_registry import ReshapeRegistry
from gateway.reshaping.shape_orders import ORDER_SECONDS
from gateway.store.lua_script import Script
from gateway.tenancy.tenants.transactions import AUDIT, Entry, Step, commit
from protos.errors import Conflict, GroupNotFound, InvalidRequest
from protos.types import Shape
from tests.gateway.reshaping import relaunched
from tests.gateway.reshaping.shapes import ADDRESSES, World, config_of, shapes_world

ENTRIES = Script("return redis.call('XREVRANGE', KEYS[1], '+', '-')")


def registry_of(world: World) -> ReshapeRegistry:
    return ReshapeRegistry(world.store, world.config)


async def test_an_order_of_an_operator_is_carried_out_whatever_is_decided(store_url: str) -> None:
    async with shapes_world(store_url, config_of(mode="off")) as world:
        controller, registry = world.controller(), registry_of(world)
        await world.round(controller)
        plan = await registry.plan("m", "g", [2, 1, 1])
        assert (plan.before, plan.after, plan.refused, plan.gpu_seconds) == ([1, 1, 1, 1], [2, 1, 1], "", 0.6)
        order = await registry.apply("m", "g", [2, 1, 1], "cli:ada")
        assert (order.taken, order.change) == (False, None)
        change = await world.until(controller, "done")
        assert (change.actor, change.after, world.spans()) == ("cli:ada", [2, 1, 1], [2, 1, 1])
        # Only those whose GPUs become a wider replica's take part.
        assert [one.gpu for one in change.participants] == [0, 1]
        followed = await registry.followed(order)
        assert followed.taken
        assert followed.change is not None
        assert followed.change.phase == "done"
        assert "reshape.apply" in str(await world.direct.run(ENTRIES, [AUDIT], []))
        # It is begun with once only.
        await world.round(controller, times=5)
        assert (await world.change()).id == 1
        # Its end is known when another change has followed.
        await registry.apply("m", "g", [1, 1, 1, 1], "cli:ada")
        await world.round(controller, times=20)
        assert (await world.change()).id == 2
        assert world.spans() == [1, 1, 1, 1]
        before = await registry.followed(order)
        assert before.change is not None
        assert (before.refused, before.change.phase, before.change.after) == ("", "done", [2, 1, 1])
        assert before.change.ended == followed.change.ended


@pytest.mark.parametrize("seen", [0, 1])
async def test_an_order_that_is_taken_while_it_is_followed_is_not_refused(
    store_url: str, monkeypatch: pytest.MonkeyPatch, seen: int
) -> None:
    """Events were read before they told of the change, or of its beginning alone; the records are of later."""
    async with shapes_world(store_url, config_of(mode="off")) as world:
        controller, registry = world.controller(), registry_of(world)
        await world.round(controller)
        order = await registry.apply("m", "g", [2, 1, 1], "cli:ada")
        await world.until(controller, "done")
        events = [one for one in await registry.events("m", 100) if one.order == order.id][:seen]

        async def read_events(*_: object) -> list[Event]:
            return events

        monkeypatch.setattr("gateway.reshaping.reshape_registry.read_shape_events", read_events)
        change = (await registry.followed(order)).change
        assert change is not None and change.phase == "done"
        await registry.apply("m", "g", [1, 1, 1, 1], "cli:ada")
        await world.round(controller, times=20)
        followed = await registry.followed(order)
        assert (followed.taken, followed.change, followed.refused) == (bool(seen), None, "")


async def test_an_order_waits_for_the_one_before_it(store_url: str) -> None:
    async with shapes_world(store_url, config_of(mode="off")) as world:
        controller, registry = world.controller(), registry_of(world)
        await world.round(controller)
        await registry.apply("m", "g", [2, 1, 1], "cli:ada")
        with pytest.raises(Conflict, match="g is not changed now: the order of cli:ada comes first"):
            await registry.apply("m", "g", [4], "cli:bob")
        await world.until(controller, "done")
        await registry.apply("m", "g", [4], "cli:bob")
        # Nobody takes it in time.
        world.now += ORDER_SECONDS + 1.0
        await registry.apply("m", "g", [4], "cli:ada")


async def test_what_cannot_be_is_refused_by_its_field(store_url: str) -> None:
    async with shapes_world(store_url) as world:
        controller, registry = world.controller(), registry_of(world)
        with pytest.raises(GroupNotFound, match="no replica of the model is in one"):
            await registry.apply("m", "g", [4], "a")
        await world.round(controller)
        with pytest.raises(GroupNotFound, match="The shapes of no model 'x' change; there are m"):
            await registry.apply("x", "g", [4], "a")
        with pytest.raises(GroupNotFound, match="has no group 'h'; there are g"):
            await registry.apply("m", "h", [4], "a")
        for shape, why in (
            ([3, 1], "TP3 is no power of two"),
            ([1, 2, 1], "TP2 cannot begin at GPU 1"),
            ([8], "the replicas end at GPU 8 of 4"),
            ([], "expected widths"),
            ([1, 1, 1, 1], "it has that shape"),
        ):
            with pytest.raises(InvalidRequest, match=why):
                await registry.apply("m", "g", shape, "a")


async def test_what_memory_cannot_hold_is_refused(store_url: str) -> None:
    async with shapes_world(store_url) as world:
        controller, registry = world.controller(), registry_of(world)
        world.wants(300_000)
        await world.until(controller, "done")
        world.longest = {ADDRESSES[0]: 300_000}
        await world.round(controller)
        with pytest.raises(InvalidRequest, match="runs a request of 300000 KV tokens, and TP1 holds 74000"):
            await registry.apply("m", "g", [1, 1, 1, 1], "a")


async def test_nothing_is_changed_during_a_drain_and_what_drains_is_named(store_url: str) -> None:
    async with shapes_world(store_url) as world:
        controller, registry = world.controller(), registry_of(world)
        drain = msgspec.json.encode(
            Drain(model="m", target="p/2", since=world.now, grace_seconds=30.0, actor="cli:ada")
        )
        assert await commit(world.store, [Step(drain_place("m", "p/2"), b"", drain)], Entry("a", "drain", "m p/2"))
        world.wants(300_000)
        await world.round(controller, times=3)
        assert world.group.orders == []
        with pytest.raises(Conflict, match="p/2 is drained by cli:ada"):
            await registry.apply("m", "g", [4], "a")


async def test_one_change_of_a_group_at_a_time(store_url: str) -> None:
    async with shapes_world(store_url) as world:
        controller, registry = world.controller(), registry_of(world)
        world.wants(300_000)
        await world.until(controller, "preparing")
        with pytest.raises(Conflict, match="change 1 is preparing"):
            await registry.apply("m", "g", [2, 2], "a")


async def test_an_order_that_the_controller_finds_barred_is_refused_with_its_reason(store_url: str) -> None:
    async with shapes_world(store_url, config_of(mode="off")) as world:
        controller, registry = world.controller(), registry_of(world)
        await world.round(controller)
        order = await registry.apply("m", "g", [4], "a")
        world.lost = {ADDRESSES[3]}
        await world.round(controller, times=3)
        assert not (await registry.followed(order)).taken
        await world.round(controller, times=3)
        followed = await registry.followed(order)
        assert followed.refused == "GPU 3 belongs to no replica"
        assert (await world.status()).totals.refused == 1


async def test_an_order_may_take_several_changes_which_the_next_controller_goes_on_with(store_url: str) -> None:
    async with shapes_world(store_url, config_of(mode="off")) as world:
        controller, registry = world.controller(), registry_of(world)
        await world.round(controller)
        plan = await registry.plan("m", "g", [2, 2])
        # Both changes hold two GPUs up for 0.3 s.
        assert (plan.refused, plan.gpu_seconds) == ("", 1.2)
        order = await registry.apply("m", "g", [2, 2], "cli:ada")
        first = await world.until(controller, "done")
        assert (first.after, first.goal, first.is_over) == ([2, 1, 1], [2, 2], False)
        with pytest.raises(Conflict, match="change 1 is done"):
            await registry.apply("m", "g", [4], "cli:bob")
        await world.kill()
        controller = world.controller("another")
        await world.until(controller, "preparing")
        change = await world.until(controller, "done")
        assert (change.id, change.after, change.actor, world.spans()) == (2, [2, 2], "cli:ada", [2, 2])
        followed = (await registry.followed(order)).change
        assert followed is not None and followed.is_over and not followed.missed
        assert (await world.status()).totals.done == 2


async def test_an_order_that_cannot_go_on_ends_where_it_is(store_url: str) -> None:
    async with shapes_world(store_url, config_of(mode="off")) as world:
        controller, registry = world.controller(), registry_of(world)
        await world.round(controller)
        order = await registry.apply("m", "g", [2, 2], "cli:ada")
        await world.until(controller, "done")
        world.lost = {ADDRESSES[3]}
        await world.round(controller, times=3)
        assert not (await world.change()).is_over
        await world.round(controller, times=4)
        change = (await registry.followed(order)).change
        assert change is not None and change.missed
        assert (change.after, change.failure) == ([2, 1, 1], "GPU 3 belongs to no replica")
        totals = (await world.status()).totals
        assert (totals.done, totals.refused) == (1, 1)


async def test_an_order_that_nobody_took_in_time_is_dropped(store_url: str) -> None:
    async with shapes_world(store_url, config_of(mode="off")) as world:
        controller, registry = world.controller(), registry_of(world)
        await world.round(controller)
        order = await registry.apply("m", "g", [4], "a")
        await world.kill()
        world.now += 60.0
        await world.round(world.controller("two"))
        assert (await registry.followed(order)).refused == "no controller took it within 30 s"
        assert world.spans() == [1, 1, 1, 1]


async def test_groups_that_overlap_are_left_alone(store_url: str) -> None:
    async with shapes_world(store_url) as world:
        controller, registry = world.controller(), registry_of(world)
        one = world.group.members[ADDRESSES[1]]
        wide = msgspec.structs.replace(one.membership.info, shape=Shape(2))
        world.group._say(ADDRESSES[0], span=type(one.membership.span)(0, 2), info=wide)
        world.wants(300_000)
        await world.round(controller, times=3)
        assert world.group.orders == []
        with pytest.raises(Conflict, match="GPU 1 belongs to two replicas"):
            await registry.apply("m", "g", [4], "a")


async def test_the_shapes_that_a_group_may_be_asked_to_have(store_url: str) -> None:
    async with shapes_world(store_url, config_of(mode="off")) as world:
        controller, registry = world.controller(), registry_of(world)
        with pytest.raises(GroupNotFound):
            await registry.choices("m", "g")
        world.longest = {ADDRESSES[0]: 150_000}
        await world.round(controller, times=2)
        found = await registry.choices("m", "g")
        assert [one.after for one in found] == [[4], [2, 2], [2, 1, 1], [1, 1, 2]]
        assert found == [await registry.plan("m", "g", one.after) for one in found]
        for wrong in (("m", "h"), ("x", "g")):
            with pytest.raises(GroupNotFound):
                await registry.choices(*wrong)


async def test_places_of_two_pools_are_offered_as_well(store_url: str) -> None:
    async with relaunched.relaunch_world(store_url) as world:
        await world.round(times=3)
        registry = ReshapeRegistry(world.store, world.config)
        (group,) = (await registry.view("m")).models[0].groups
        (plan,) = await registry.choices("m", group.group)
        assert (sum(plan.before), sum(plan.after)) == (group.gpus, group.gpus)
        assert list(plan.after) != list(group.shape)


async def test_a_cool_down_is_told_until_it_is_over(store_url: str) -> None:
    async with shapes_world(store_url, config_of(mode="off", cool_down_seconds=20)) as world:
        controller, registry = world.controller(), registry_of(world)
        await world.round(controller)
        assert (await world.status()).groups[0].rests_until is None
        await registry.apply("m", "g", [4], "cli:ada")
        change = await world.until(controller, "done")
        assert change.ended is not None
        assert (await world.status()).groups[0].rests_until == change.ended + 20
        await world.round(controller, seconds=20.0)
        assert (await world.status()).groups[0].rests_until is None
