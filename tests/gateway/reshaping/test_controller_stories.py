"""Random kills, outages and losses under the controller of shapes: every change ends, with one event and one count."""

import contextlib
from collections import Counter

import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.reshaping.controller import ShapeController
from gateway.reshaping.reshape_registry import OrderView, ReshapeRegistry
from protos.errors import Conflict, GroupNotFound, InvalidRequest, StoreUnavailable
from replicas.reshape.group_view import groups_of
from replicas.reshape.ordered_change import ENDED
from tests.gateway.reshaping.shapes import ADDRESSES, World, config_of, shapes_world
from tests.gateway.timed_store import Killed
from tests.loops import bounded, until

SHAPES = ((4,), (2, 2), (2, 1, 1), (1, 1, 2), (1, 1, 1, 1))
TRAPS = ("", "silent", "refuses", "fails", "stuck", "dies", "stays_prepared")
HAPPENINGS = st.one_of(
    st.tuples(st.just("rounds"), st.integers(1, 6)),
    st.tuples(st.just("rounds"), st.integers(1, 6)),
    st.tuples(st.just("order"), st.integers(0, len(SHAPES) - 1)),
    st.tuples(st.just("order"), st.integers(0, len(SHAPES) - 1)),
    st.tuples(st.just("long"), st.integers(0, 1)),
    st.tuples(st.just("short"), st.integers(0, 1)),
    st.tuples(st.just("trap"), st.integers(0, 4 * len(TRAPS) - 1)),
    st.tuples(st.just("untrap"), st.just(0)),
    st.tuples(st.just("lose"), st.integers(0, 15)),
    st.tuples(st.just("restart"), st.integers(0, 3)),
    st.tuples(st.just("away"), st.integers(0, 1)),
    st.tuples(st.just("unsure"), st.integers(0, 1)),
    st.tuples(st.just("kill"), st.integers(1, 3)),
    st.tuples(st.just("jump"), st.integers(-1, 1)),
)


class Story:
    """A world, the controller that acts in it, and the orders that were given."""

    def __init__(self, world: World) -> None:
        self.world, self.number = world, 0
        self.controller: ShapeController = world.controller("0")
        self.orders: list[OrderView] = []

    async def happens(self, what: str, choice: int) -> None:
        world = self.world
        if what == "rounds":
            await self.rounds(choice)
        elif what == "order":
            registry = ReshapeRegistry(world.store, world.config)
            with contextlib.suppress(Conflict, InvalidRequest, GroupNotFound, StoreUnavailable):
                self.orders.append(await registry.apply("m", "g", SHAPES[choice], "cli:ada"))
        elif what in ("long", "short"):
            world.wants(*([300_000] if what == "long" and choice else ()), short=300.0 * (what == "short") * choice)
        elif what == "trap":
            world.group.traps[ADDRESSES[choice % 4]] = TRAPS[choice // 4]
        elif what == "untrap":
            world.group.traps.clear()
        elif what == "lose":
            world.lost = {address for gpu, address in enumerate(ADDRESSES) if choice >> gpu & 1}
        elif what == "restart":
            world.group.restart(ADDRESSES[choice])
        elif what == "kill":
            world.kills = frozenset({world.acts + choice})
        elif what == "jump":
            world.ahead = 3600.0 * choice
        else:
            setattr(world, what, bool(choice))

    async def rounds(self, times: int) -> None:
        for _ in range(times):
            try:
                await self.world.round(self.controller)
            except Killed:
                self.number += 1
                await self.controller.aclose()
                await self.world.kill()
                self.controller = self.world.controller(str(self.number))

    async def calm(self) -> None:
        """Nothing more happens, and all that was under way has time to end."""
        world = self.world
        world.away = world.unsure = False
        world.kills, world.lost = frozenset(), set()
        world.group.traps.clear()
        world.wants()
        await self.rounds(120)


async def check(story: Story) -> None:
    world = story.world
    (view,) = groups_of(world.group.members.values()).values()
    assert view.problem == ""
    assert all(member.settled for member in view.members)
    change = (await world.records()).changes.get("m g")
    assert change is None or change.is_over
    events = await world.events()
    ends = Counter(event.change for event in events if event.phase in ENDED)
    begun = {event.change for event in events if event.change}
    assert ends == Counter(begun)
    phases = Counter(event.phase for event in events)
    totals = (await world.status()).totals
    assert (totals.done, totals.failed, totals.refused) == tuple(phases[p] for p in ("done", "failed", "refused"))
    await until(lambda: {told["change"] for _, told in world.posted} == begun)
    for order in story.orders:
        followed = await ReshapeRegistry(world.direct, world.config).followed(order)
        assert followed.taken
        assert followed.refused or (followed.change is not None and followed.change.is_over)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(HAPPENINGS, min_size=5, max_size=30))
def test_every_change_ends_and_is_told_once(store_url: str, story: list[tuple[str, int]]) -> None:
    async def body() -> None:
        config = config_of(cool_down_seconds=1, webhook="http://hook", transform_seconds=10)
        async with shapes_world(store_url, config) as world:
            told = Story(world)
            await told.rounds(2)
            for what, choice in story:
                await told.happens(what, choice)
            await told.calm()
            await check(told)

    with redis.Redis.from_url(store_url) as client:
        client.flushall()
    bounded(body)
