"""Changes that launchers make, with both controllers."""

import pytest

from gateway.scaling.demand.demand_reports import ModelReport, PoolReport
from gateway.scaling.demand.launched_rooms import LOOK_SECONDS, LaunchedRooms
from protos.errors import Conflict, InvalidRequest
from tests.gateway.reshaping.relaunched import GROUP, World, config_of, relaunch_world


async def four_narrow(world: World) -> None:
    world.want(narrow=4, wide=0)
    await world.round(times=6)
    assert len(world.launcher.pool("narrow")) == 4


async def test_narrow_replicas_drain_and_a_wide_one_starts_on_their_gpus_and_back(store_url: str) -> None:
    async with relaunch_world(store_url) as world:
        await four_narrow(world)
        (group,) = (await world.status()).groups
        assert (group.group, group.shape, group.method, group.held) == (GROUP, [1, 1, 1, 1], "relaunch", "")
        await world.registry.apply("m", GROUP, [4], "cli:ada")
        change = await world.until("done")
        assert (change.method, change.actor, change.narrow) == ("relaunch", "cli:ada", 4)
        assert (len(world.launcher.pool("narrow")), len(world.launcher.pool("wide"))) == (0, 1)
        assert world.launcher.most_used == 4
        # Whatever the load asks for, the sizes stay as the shapes have them.
        await world.round(times=20)
        assert (len(world.launcher.pool("narrow")), len(world.launcher.pool("wide"))) == (0, 1)
        assert (await world.status()).groups[0].shape == [4]
        await world.registry.apply("m", GROUP, [1, 1, 1, 1], "cli:ada")
        assert (await world.until("preparing")).id == 2
        await world.until("done")
        assert (len(world.launcher.pool("narrow")), len(world.launcher.pool("wide"))) == (4, 0)


async def test_a_wide_replica_that_does_not_come_up_gives_its_gpus_back(store_url: str) -> None:
    async with relaunch_world(store_url) as world:
        await four_narrow(world)
        world.broken = {"wide"}
        await world.registry.apply("m", GROUP, [4], "cli:ada")
        change = await world.until("aborting")
        assert change.failure == "what comes was not ready within 60 s"
        change = await world.until("failed")
        assert (len(world.launcher.pool("narrow")), len(world.launcher.pool("wide"))) == (4, 0)
        with pytest.raises(Conflict, match="its last change failed"):
            await world.registry.apply("m", GROUP, [4], "cli:ada")


async def wide_and_gone(world: World) -> None:
    """Come to a wide replica, whose process ends for good."""
    await four_narrow(world)
    await world.registry.apply("m", GROUP, [4], "cli:ada")
    await world.until("done")
    world.broken = {"wide"}
    world.launcher.replicas.clear()


async def test_narrow_replicas_come_back_where_the_wide_one_never_starts_again(store_url: str) -> None:
    async with relaunch_world(store_url) as world:
        await wide_and_gone(world)
        await world.round(times=20)
        assert (await world.status()).groups[0].problem == "0 of 1 replicas of pool wide are ready"
        # Whoever takes over has it for missing since then, too.
        await world.shapes.lease.leave()
        world.shapes = world.shape_controller("another")
        change = await world.until("preparing", most=50)
        assert (change.id, change.actor, change.after) == (2, "policy", [1, 1, 1, 1])
        reason = "0 of 1 replicas of pool wide are ready: what comes was not ready within 60 s"
        assert change.reason == reason
        change = await world.until("done")
        assert (len(world.launcher.pool("narrow")), len(world.launcher.pool("wide"))) == (4, 0)
        # It counts as a change that has failed: the next one waits.
        (group,) = (await world.status()).groups
        assert (group.shape, group.problem) == ([1, 1, 1, 1], "")
        assert group.held.startswith("its last change failed") and group.held.endswith(reason)
        events = await world.registry.events("m", 3)
        assert [(one.phase, one.reason) for one in events] == [
            ("preparing", reason),
            ("transforming", reason),
            ("done", reason),
        ]


async def test_starts_of_the_wide_one_that_fail_at_once_are_not_tried_for_long(store_url: str) -> None:
    async with relaunch_world(store_url) as world:
        await wide_and_gone(world)
        world.launcher.failing = {"wide": "out of memory"}
        change = await world.until("preparing", most=50)
        assert change.reason.endswith("4 starts failed one after the other, the last one: out of memory")
        assert len([id_ for id_ in world.launcher.starts if id_.startswith("wide")]) == 5
        await world.until("done")
        await world.round(times=40)
        # It is started ever more rarely, so that time ends the next try, which says what has failed.
        await world.registry.apply("m", GROUP, [4], "cli:ada")
        change = await world.until("aborting", most=80)
        assert change.failure == "what comes was not ready within 60 s, and its last start failed: out of memory"
        assert (await world.until("failed")).failed == 2
        assert (len(world.launcher.pool("narrow")), len(world.launcher.pool("wide"))) == (4, 0)


async def test_first_starts_of_a_wide_one_that_fail_at_once_end_the_change(store_url: str) -> None:
    async with relaunch_world(store_url) as world:
        await four_narrow(world)
        world.launcher.failing = {"wide": "out of memory"}
        await world.registry.apply("m", GROUP, [4], "cli:ada")
        change = await world.until("aborting", most=50)
        assert change.failure == "4 starts failed one after the other, the last one: out of memory"
        await world.until("failed")
        assert (len(world.launcher.pool("narrow")), len(world.launcher.pool("wide"))) == (4, 0)


async def test_a_wide_replica_that_comes_again_stays(store_url: str) -> None:
    async with relaunch_world(store_url) as world:
        await wide_and_gone(world)
        await world.round(times=30)
        world.broken = set()
        await world.round(times=60)
        (change,) = (await world.records()).changes.values()
        assert (change.id, change.phase, change.lacks_since) == (1, "done", None)
        assert len(world.launcher.pool("wide")) == 1


async def test_another_controller_goes_on_with_a_change(store_url: str) -> None:
    async with relaunch_world(store_url) as world:
        await four_narrow(world)
        await world.registry.apply("m", GROUP, [4], "cli:ada")
        await world.until("preparing")
        await world.shapes.lease.leave()
        world.shapes = world.shape_controller("another")
        await world.until("transforming")
        await world.shapes.lease.leave()
        world.shapes = world.shape_controller("a third")
        await world.until("done")
        assert len(world.launcher.pool("wide")) == 1


async def test_a_start_must_be_worth_it(store_url: str) -> None:
    async with relaunch_world(store_url, config_of(mode="advise")) as world:
        world.want(narrow=4, wide=0)
        world.report = ModelReport(
            window=30.0,
            arrivals=30.0,
            ended=100.0,
            prompt_tokens=200_000.0,
            output_tokens=10_000.0,
            waiting=1,
            long_waits=[(100_000, 1.0)],
        )
        await world.round(times=6)
        # Nobody knows what the narrow ones serve, so nothing is compared with what a start costs.
        assert (await world.status()).advice is None


class Told:
    """A fleet that keeps what it is told."""

    def __init__(self) -> None:
        self.rooms = (0, 0)

    def launch(self, narrow: int, wide: int) -> None:
        self.rooms = (narrow, wide)


async def test_what_replicas_hold_is_learned_from_those_that_ran(store_url: str) -> None:
    config, fleet = config_of({}, mode="advise"), Told()
    async with relaunch_world(store_url, config) as world:
        rooms = LaunchedRooms(world.store, config.models, {"m": fleet}, lambda: world.now)
        await world.round(times=3)
        assert "no replica of pool narrow was ever seen" in (await world.status()).groups[0].undecided
        await four_narrow(world)
        assert "no replica of pool narrow tells" in (await world.status()).groups[0].undecided
        world.report = ModelReport(window=30.0, arrivals=30.0, pools={"narrow": PoolReport(kv_tokens=60_000)})
        await world.round(times=2)
        assert "no replica of pool wide was ever seen, and relaunch.wide_kv_tokens does not say it" in (
            (await world.status()).groups[0].undecided
        )
        await rooms.look()
        assert fleet.rooms == (0, 0)
        # An operator can have one started, whatever is known.
        await world.registry.apply("m", GROUP, [4], "cli:ada")
        await world.until("done")
        world.report = ModelReport(window=30.0, arrivals=30.0, pools={"wide": PoolReport(kv_tokens=500_000)})
        await world.round(times=2)
        # Others learn it at once, and it outlives the replica and whoever has seen it.
        world.report = ModelReport(window=30.0, arrivals=30.0)
        await world.shapes.lease.leave()
        world.shapes = world.shape_controller("another")
        await world.round(times=8)
        (group,) = (await world.status()).groups
        assert [one.kv_tokens for one in group.widths] == [60_000, 500_000]
        assert group.undecided == "what a replica of pool narrow serves is not known before it has answered requests"
        world.now += LOOK_SECONDS
        await rooms.look()
        assert fleet.rooms == (60_000, 500_000)


async def test_what_cannot_be_is_refused(store_url: str) -> None:
    async with relaunch_world(store_url) as world:
        await four_narrow(world)
        for shape in ([2, 2], [4, 4], [1, 1]):
            with pytest.raises(InvalidRequest, match="expected widths of 1 and 4 that come to 4 GPUs"):
                await world.registry.apply("m", GROUP, shape, "a")
        with pytest.raises(InvalidRequest, match="it has that shape"):
            await world.registry.apply("m", GROUP, [1, 1, 1, 1], "a")
