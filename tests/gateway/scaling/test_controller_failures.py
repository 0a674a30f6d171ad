import asyncio
from collections.abc import Callable, Sequence

import pytest

from gateway.fleets.reports import Reporter
from gateway.scaling.leasing.lease import LEASE_SECONDS
from gateway.store.embedded import EmbeddedStore
from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from protos.launch_step import LaunchStep
from protos.types import Shape
from replicas.launchers.launcher import LauncherError, ReplicaOrder
from routing.health.replica_status import ReplicaStatus, State
from tests.gateway.scaling.scaled import FakeLauncher, World, scaled_config, scaled_world, scaler_of, want
from tests.gateway.tenancy.limits.worker import frozen
from tests.loops import until

FLUSH = Script("return redis.call('FLUSHALL')")
EXPIRE = Script("return redis.call('DEL', KEYS[1])")
LEASE_KEY = "penstock:{scaling}:lease"


class Channel:
    """A channel on which a test says something."""

    def __init__(self) -> None:
        self.say: Callable[[], None] | None = None

    async def hear(self, channel: str, heard: Callable[[], None]) -> None:
        self.say = heard
        await asyncio.get_running_loop().create_future()


async def test_a_controller_ends_also_when_it_hears_of_demand_in_that_moment(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        channel = Channel()
        # Several times: what is under way when it is told to end differs.
        for turns in range(6):
            running = asyncio.create_task(world.controller(f"one-{turns}").run(channel))
            await until(lambda: channel.say is not None)
            assert channel.say is not None
            channel.say()
            for _ in range(turns):
                await asyncio.sleep(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            channel.say = None


async def test_another_controller_takes_over_and_starts_nothing_twice(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one, two = world.controller("one"), world.controller("two")
        want(one, 2)
        want(two, 2)
        await world.round(one)
        await world.round(two)
        assert one.lease.held and not two.lease.held
        started = list(world.launcher.starts)
        # The first one is killed: the store lets go of its lease.
        await world.store.run(EXPIRE, [LEASE_KEY], [])
        await world.round(two, times=3)
        assert two.lease.held
        assert world.launcher.starts == started
        # It was only paused, and comes back: whatever it would write or start is refused.
        want(one, 8)
        world.now -= 3.0
        await one.round()
        assert world.launcher.starts == started
        assert len(await world.intents()) == 2


async def test_what_was_written_down_and_not_started_is_started_by_the_next_one(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one, two = world.controller("one"), world.controller("two")
        want(one, 2)
        want(two, 2)
        world.launcher.answers.clear()
        await world.say()
        await one.renew()
        # It looks first, and hangs there.
        await one.round()
        world.launcher.answers.set()
        await one._calls["local"].finished(5.0)
        world.launcher.answers.clear()
        for calls in one._calls.values():
            await calls.aclose()
        world.launcher.answers.set()
        await one.lease.leave()
        await world.round(two, times=2)
        assert len(world.launcher.starts) == 2
        assert set(world.launcher.starts) == set(await world.intents())


async def test_a_launcher_that_hangs_is_waited_for_and_nothing_is_doubled(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 1)
        await world.round(one)
        world.launcher.answers.clear()
        want(one, 3)
        for _ in range(4):
            world.now += 15.0
            await world.say()
            await one.renew()
            await one.round()
        (pool,) = (await world.status()).pools
        assert "has not answered to observe" in pool.problem
        world.launcher.answers.set()
        await one._calls["local"].finished(5.0)
        await world.round(one, times=3)
        assert len(world.launcher.starts) == 3
        assert (await world.status()).pools[0].problem == ""


async def test_a_pool_that_cannot_be_looked_at_is_left_alone_and_others_go_on(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with scaled_world(store_url) as world:
        other = {
            "name": "q",
            "engine": "simulated",
            "replicas": "registered",
            "launcher": "local",
            "scaling": {"min": 0, "max": 8, "price_per_hour": 2.0},
        }
        world.config = scaled_config(other)
        one = world.controller()
        scaler_of(one).wanted = {"p": 2, "q": 0}
        await world.round(one)
        await world.ready()
        await world.round(one)
        before = await world.intents()
        why = "the role lacks the verb list on pods"
        world.launcher.unknown = {("m", "p"): why}
        # What is wanted changes meanwhile, and much time passes.
        scaler_of(one).wanted = {"p": 3, "q": 1}
        await world.round(one, seconds=2.0, times=3)
        scaler_of(one).wanted = {"p": 0, "q": 1}
        await world.round(one, seconds=200.0, times=2)
        after = await world.intents()
        assert {id_: intent for id_, intent in after.items() if intent.pool == "p"} == before
        assert [world.launcher.replicas[id_].pool for id_ in world.launcher.starts] == ["p", "p", "q"]
        assert world.launcher.stops == []
        pools = {pool.name: pool for pool in (await world.status()).pools}
        assert (pools["p"].problem, pools["q"].problem, pools["p"].ready) == (why, "", 2)
        # The scaler is told that it cannot grow there.
        unavailable = {name: pool.unavailable for name, pool in scaler_of(one).snapshots[-1].pools.items()}
        assert unavailable == {"p": why, "q": ""}
        world.launcher.unknown = {}
        await world.round(one, times=6)
        assert {intent.state for intent in (await world.intents()).values() if intent.pool == "p"} <= {"drain", "stop"}
    said = [record.getMessage() for record in caplog.records if why in record.getMessage()]
    assert said == [f"the local launcher: pool p of m is left as it is: {why}"]


async def test_a_start_that_fails_is_told_and_tried_again(store_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 1)
        await world.round(one)
        (id_,) = world.launcher.starts
        failed = world.launcher.replicas[id_]
        world.launcher.replicas[id_] = type(failed)(
            id=id_, model="m", pool="p", step=LaunchStep.FAILED, since=0.0, problem="no such checkpoint"
        )
        await world.round(one)
        assert world.launcher.stops == [(id_, 0.0)]
        (shown,) = (await world.status()).pools[0].failed
        assert (shown.id, shown.problem) == (id_, "no such checkpoint")
        await world.round(one, times=4)
        assert len(world.launcher.starts) == 2
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said == [f"replica {id_} of m: no such checkpoint"]


async def test_a_replica_that_ends_by_itself_is_replaced_after_a_second_look(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 1)
        await world.round(one)
        await world.ready()
        await world.round(one)
        (id_,) = world.launcher.starts
        await world.gone(id_)
        await world.round(one)
        assert len(world.launcher.starts) == 1
        await world.round(one, times=6)
        assert len(world.launcher.starts) == 2
        assert id_ not in await world.intents()


async def test_what_the_launcher_forgets_and_still_serves_is_kept(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 1)
        await world.round(one)
        await world.ready()
        await world.round(one)
        (id_,) = world.launcher.starts
        del world.launcher.replicas[id_]
        for _ in range(5):
            await world.ready(id_)
            await world.round(one)
        assert world.launcher.starts == [id_]
        assert (await world.status()).pools[0].ready == 1


async def test_a_store_that_has_lost_everything_leads_to_no_new_and_no_lost_replica(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 3)
        await world.round(one)
        await world.ready()
        await world.round(one)
        await world.store.run(FLUSH, [LEASE_KEY], [])
        for _ in range(6):
            await world.ready()
            await world.round(one)
        assert len(world.launcher.starts) == 3
        assert world.launcher.stops == []
        assert set(await world.intents()) == set(world.launcher.starts)


async def test_a_replica_drains_until_every_worker_that_was_there_has_said_so_again(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one, other = world.controller(), Reporter(world.store, "other")
        want(one, 2)
        await world.round(one)
        await world.ready()
        leaving, stays = world.launcher.starts
        world.in_flight = {leaving: 1, stays: 9}

        async def busy() -> None:
            replica = world.launcher.replicas[leaving]
            word = ReplicaStatus("p/x", "p", State.DRAINING, "", 1, 0, 0, 9, 1, 0.0, 0.0, address=replica.address)
            await other.report({"m": [word]})

        for _ in range(4):
            await busy()
            await world.round(one)
        want(one, 1)
        await world.round(one)
        # The store comes back without its reports, and one of two workers is the first to report again.
        world.now += 10.0
        await world.store.run(EXPIRE, ["penstock:{replicas}:reports"], [])
        await world.store.run(EXPIRE, ["penstock:{replicas}:times"], [])
        world.in_flight, world.drained = {}, {leaving}
        await world.ready()
        await world.round(one, times=6)
        assert world.launcher.stops == []
        await busy()
        await world.round(one)
        assert world.launcher.stops == []
        # It has died, and its report ends with it.
        await world.store.run(Script("return redis.call('ZREM', KEYS[1], 'other')"), ["penstock:{replicas}:times"], [])
        await world.store.run(
            Script("return redis.call('HDEL', KEYS[1], 'other')"), ["penstock:{replicas}:reports"], []
        )
        await world.ready()
        await world.round(one, times=10)
        assert [id_ for id_, _ in world.launcher.stops] == [leaving]


async def test_a_store_that_is_frozen_in_the_middle_of_a_start_doubles_and_loses_nothing(
    own_store: EmbeddedStore,
) -> None:
    pid = own_store.pid
    assert pid is not None
    store = Store(own_store.url, timeout=10.0)
    try:
        world = World(store, scaled_config())
        one = world.controller()
        want(one, 2)
        await world.round(one)
        want(one, 6)
        with frozen(pid, store, seconds=0.3):
            for _ in range(3):
                world.now += LEASE_SECONDS
                await one.renew()
                await one.round()
            assert one.lease.held is None
            assert len(world.launcher.starts) == 2
        await world.round(one, times=4)
        assert len(world.launcher.starts) == 6
        assert set(world.launcher.starts) == set(await world.intents())
    finally:
        await store.aclose()


async def test_a_pool_whose_starts_fail_is_unavailable_for_a_while_and_asked_again(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 2)
        start = world.launcher.start

        async def refuse(orders: Sequence[ReplicaOrder]) -> None:
            raise LauncherError(f"{orders[0].id}: it needs 2 GPUs, and 0 of 8 are free")

        world.launcher.start = refuse  # type: ignore[method-assign]
        await world.round(one, times=2)
        assert "it needs 2 GPUs" in (await world.status()).pools[0].problem
        assert "it needs 2 GPUs" in scaler_of(one).snapshots[-1].pools["p"].unavailable
        world.launcher.start = start  # type: ignore[method-assign]
        await world.round(one, seconds=5.0, times=3)
        assert len(world.launcher.starts) == 2
        assert (await world.status()).pools[0].problem == ""
        assert set(world.launcher.starts) == set(await world.intents())


async def test_a_replica_that_could_not_be_stopped_keeps_no_pool_from_growing(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 1)
        await world.round(one)
        stop = world.launcher.stop

        async def refuse(ids: Sequence[str], grace_seconds: float) -> None:
            raise LauncherError("no such cloud")

        world.launcher.stop = refuse  # type: ignore[method-assign]
        want(one, 0)
        await world.round(one)
        assert scaler_of(one).snapshots[-1].pools["p"].unavailable == ""
        world.launcher.stop = stop  # type: ignore[method-assign]
        await world.round(one, seconds=25.0, times=2)
        assert world.launcher.replicas == {}
        assert await world.intents() == {}


async def test_after_an_outage_replicas_that_have_not_said_so_again_still_serve(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 2)
        await world.round(one)
        await world.ready()
        world.in_flight = dict.fromkeys(world.launcher.starts, 3)
        await world.round(one)
        assert len(one.models[0].learned["p"].startups) == 2
        want(one, 1)
        await world.round(one)
        # What they have registered has expired in the outage.
        await world.store.run(EXPIRE, ["penstock:{replicas}:seen"], [])
        await world.store.run(EXPIRE, ["penstock:{replicas}:registered"], [])
        await world.round(one, times=3)
        (pool,) = (await world.status()).pools
        assert (pool.ready, len(pool.stopping), len(pool.starting)) == (1, 1, 0)
        assert world.launcher.stops == [], "one drains still"
        await world.ready()
        await world.round(one)
        assert len(one.models[0].learned["p"].startups) == 2


async def test_an_answer_from_before_another_controller_acted_is_not_heard(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one, two = world.controller("one"), world.controller("two")
        want(one, 1)
        want(two, 1)
        await world.round(one)
        (id_,) = world.launcher.starts
        # It has looked, and loses the lease before it hears what there is.
        one._calls["local"].look()
        await one._calls["local"].finished(5.0)
        await world.store.run(EXPIRE, [LEASE_KEY], [])
        await world.round(two)
        await world.gone(id_)
        await world.round(two, times=8)
        assert id_ not in await world.intents()
        await two.lease.leave()
        world.launcher.answers.clear()
        await one.renew()
        await one.round()
        assert one.lease.held is not None
        assert id_ not in one._observed["local"].get(("m", "p"), {})
        world.launcher.answers.set()
        await one._calls["local"].finished(5.0)


async def test_a_lease_that_cannot_be_read_ends_no_controller(
    store_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spoil = Script("return redis.call('HSET', KEYS[1], 'token', 'x', 'name', 'y', 'since', 'z')")
    monkeypatch.setattr("gateway.scaling.leasing.leased_rounds.RENEW_SECONDS", 0.01)
    async with scaled_world(store_url) as world:
        one = world.controller()
        await world.store.run(spoil, [LEASE_KEY], [])
        running = asyncio.create_task(one.run())
        await until(lambda: "renewing the lease of the controller" in caplog.text)
        await world.store.run(EXPIRE, [LEASE_KEY], [])
        await until(lambda: one.lease.held is not None)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_replicas_of_no_pool_that_scales_are_told(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        await world.launcher.start([ReplicaOrder(id="left-1", model="m", pool="gone", shape=Shape())])
        await world.round(one)
        assert "of no pool that scales, and not looked after: left-1 (1 in all)" in (await world.status()).warnings
        assert world.launcher.stops == []


async def test_what_is_started_late_is_stopped_at_the_end_and_what_fails_is_told_again(store_url: str) -> None:
    class Failing(FakeLauncher):
        fails_to_stop = 1

        async def stop(self, ids: Sequence[str], grace_seconds: float) -> None:
            if self.fails_to_stop:
                self.fails_to_stop -= 1
                # Meanwhile a start that was under way comes to its end.
                await self.start([ReplicaOrder(id="late-1", model="m", pool="p", shape=Shape())])
                raise LauncherError("busy")
            await super().stop(ids, grace_seconds)

    async with scaled_world(store_url) as world:
        world.launcher = Failing()
        one = world.controller()
        want(one, 1)
        await world.round(one)
        assert await one.stop_all("local", 1.0, 10.0)
        assert world.launcher.replicas == {}
