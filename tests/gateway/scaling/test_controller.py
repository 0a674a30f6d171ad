import asyncio

import msgspec
import pytest

from gateway.config.models.scaling import Scaling
from gateway.scaling.demand.demand_reports import ModelReport, announce_demand
from gateway.scaling.intents import drains_of_intents, replica_registry
from gateway.scaling.reconcile import new_intent
from gateway.scaling.scaling_registry import ScalingRegistry
from gateway.scaling.settings import scaled_models
from gateway.scaling.stored_decisions import read_decisions
from gateway.store.lua_script import Script
from protos.types import Shape
from replicas.controller.model_scaler import ModelScaler
from replicas.launchers.launcher import ReplicaOrder
from tests.gateway.scaling.scaled import scaled_config, scaled_world, scaler_of, want
from tests.loops import until

EXPIRE = Script("return redis.call('DEL', KEYS[1])")


async def test_what_is_wanted_is_started_once_and_counts_when_it_is_ready(any_store_url: str) -> None:
    async with scaled_world(any_store_url) as world:
        one = world.controller()
        want(one, 3)
        await world.round(one)
        assert len(world.launcher.starts) == 3
        await world.round(one, times=3)
        assert len(world.launcher.starts) == 3
        status = await world.status()
        (pool,) = status.pools
        assert (pool.wanted, pool.ready, len(pool.starting)) == (3, 0, 3)
        assert {replica.step for replica in pool.starting} == {"process"}
        await world.ready()
        await world.round(one)
        status = await world.status()
        (pool,) = status.pools
        assert (pool.ready, len(pool.starting)) == (3, 0)
        assert status.cost_per_hour == 6.0
        assert pool.startup_seconds == pytest.approx(4.0, abs=1.0)


async def test_the_replicas_with_the_least_to_lose_drain_and_then_go(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 3)
        await world.round(one)
        await world.ready()
        idle, busy, full = world.launcher.starts
        world.in_flight = {busy: 2, full: 40}
        await world.round(one)
        want(one, 1)
        await world.round(one)
        intents = await world.intents()
        assert {id_ for id_, intent in intents.items() if intent.state == "drain"} == {idle, busy}
        targets = {drain.target for drain in drains_of_intents(intents.values())}
        assert targets == {f"p/{idle}", f"p/{busy}"}
        assert world.launcher.stops == []
        world.drained = {idle}
        await world.ready(idle, busy, full)
        await world.round(one, seconds=2.0)
        assert [id_ for id_, _ in world.launcher.stops] == [idle]
        await world.gone(idle)
        # What still runs elsewhere goes on elsewhere when its time is over.
        for _ in range(18):
            await world.ready(*world.launcher.replicas)
            await world.round(one, seconds=2.0)
        assert [id_ for id_, _ in world.launcher.stops] == [idle, busy]
        await world.gone(busy)
        await world.round(one)
        assert set(await world.intents()) == {full}


async def test_a_drain_is_undone_where_the_replica_is_wanted_again(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 2)
        await world.round(one)
        await world.ready()
        world.in_flight = dict.fromkeys(world.launcher.starts, 5)
        await world.round(one)
        want(one, 1)
        await world.round(one)
        want(one, 2)
        await world.round(one)
        assert {intent.state for intent in (await world.intents()).values()} == {"run"}
        assert world.launcher.stops == []
        assert len(world.launcher.starts) == 2


async def test_a_replica_that_nobody_wants_is_drained_after_a_second_look(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 1)
        await world.round(one)
        await world.ready()
        await world.launcher.start([ReplicaOrder(id="stranger", model="m", pool="p", shape=Shape())])
        await world.round(one)
        assert world.launcher.stops == []
        await world.round(one, times=6)
        assert [id_ for id_, _ in world.launcher.stops] == ["stranger"]


async def test_without_reports_the_last_decision_holds(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 2)
        await world.round(one)
        await world.ready()
        await world.round(one)
        world.demand = None
        await world.store.run(EXPIRE, ["penstock:{scaling}:reports"], [])
        want(one, 0)
        await world.round(one, times=3)
        status = await world.status()
        assert status.pools[0].wanted == 2
        assert any("no worker reports" in warning for warning in status.warnings)
        assert world.launcher.stops == []


async def test_a_new_controller_without_reports_keeps_what_runs(store_url: str) -> None:
    async with scaled_world(store_url, min=1) as world:
        one, two = world.controller("one"), world.controller("two")
        want(one, 3)
        await world.round(one)
        await one.lease.leave()
        world.demand = None
        await world.store.run(EXPIRE, ["penstock:{scaling}:reports"], [])
        await world.round(two, times=4)
        assert (await world.status()).pools[0].wanted == 3
        assert len(world.launcher.starts) == 3


@pytest.mark.parametrize(
    "busy",
    [ModelReport(window=30.0, arrivals=0.0, waiting=1), ModelReport(window=30.0, arrivals=0.0, in_flight=1)],
)
async def test_a_fleet_with_work_does_not_go_to_zero(store_url: str, busy: ModelReport) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 1)
        await world.round(one)
        await world.ready()
        world.demand = busy
        want(one, 0)
        await world.round(one, times=3)
        assert (await world.status()).pools[0].wanted == 1
        assert world.launcher.stops == []


async def test_a_scaler_that_fails_leaves_the_last_decision(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 2)
        await world.round(one)
        scaler_of(one).fails = ZeroDivisionError("nonsense")
        await world.round(one, times=2)
        status = await world.status()
        assert status.pools[0].wanted == 2
        assert any("ZeroDivisionError" in warning for warning in status.warnings)


async def test_decisions_stay_within_the_bounds(store_url: str) -> None:
    async with scaled_world(store_url, min=1, max=2) as world:
        one = world.controller()
        for wanted, clamped in ((9, 2), (0, 1)):
            want(one, wanted)
            await world.round(one)
            assert (await world.status()).pools[0].wanted == clamped


async def test_spot_replicas_are_counted_apart_and_a_preempted_one_is_drained_in_time(store_url: str) -> None:
    async with scaled_world(store_url, spot_max=2, spot_price_per_hour=0.5) as world:
        one = world.controller()
        want(one, 3, spot=2)
        await world.round(one)
        await world.ready()
        await world.round(one)
        status = await world.status()
        assert (status.pools[0].spot_ready, status.cost_per_hour) == (2, 3.0)
        intents = await world.intents()
        doomed = next(id_ for id_, intent in intents.items() if intent.spot)
        world.preempt(doomed, one._clock.now() + 30.0)
        world.in_flight = {doomed: 3}
        await world.ready()
        await world.round(one)
        intents = await world.intents()
        assert intents[doomed].state == "drain"
        assert 10.0 < intents[doomed].grace < 16.0
        assert len(world.launcher.starts) == 4
        assert sum(intent.spot for intent in intents.values() if intent.state == "run") == 2
        learned = one.models[0].learned["p"]
        assert learned.interruptions == 1
        assert learned.spot_hours * 3600.0 == pytest.approx(2.0, abs=2.5)
        await world.round(one)
        assert scaler_of(one).snapshots[-1].interruptions_per_hour == {"p": pytest.approx(0.1)}


async def test_when_all_spot_replicas_are_to_be_taken_away_others_start_on_demand(store_url: str) -> None:
    async with scaled_world(store_url, min=1, spot_max=5, spot_price_per_hour=0.5) as world:
        one = world.controller(scaler=ModelScaler)
        await ScalingRegistry(world.store, world.config).set_replicas("m", "p", 4, "a")
        for _ in range(3):
            await world.round(one)
            await world.ready()
        before = await world.intents()
        spot = [id_ for id_, intent in before.items() if intent.spot]
        assert (len(before), len(spot)) == (4, 3)
        for id_ in spot:
            world.preempt(id_, one._clock.now() + 100.0)
        await world.round(one, times=2)
        running = [intent for intent in (await world.intents()).values() if intent.state == "run"]
        assert len(running) == 4
        assert not any(intent.spot for intent in running)


async def test_decisions_are_recorded_and_the_next_controller_knows_them(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one, two = world.controller("one"), world.controller("two")
        want(one, 1)
        await world.round(one, times=5)
        want(one, 2)
        await world.round(one, times=5)
        found = await read_decisions(world.store)
        assert [record.pools["p"].wanted for record in found] == [1, 2]
        assert found[0].inputs["rate"] == pytest.approx(1.0)
        await one.lease.leave()
        await world.round(two)
        assert [record.pools["p"].wanted for record in two.models[0].decisions][:2] == [1, 2]


async def test_advice_is_told_and_not_followed(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        model = msgspec.structs.replace(world.config.models[0], scaling=Scaling(mode="advise"))
        world.config = msgspec.structs.replace(world.config, models=(model,))
        one = world.controller()
        want(one, 3)
        await world.round(one, times=3)
        status = await world.status()
        assert (status.mode, status.pools[0].wanted) == ("advise", 3)
        assert [record.mode for record in await read_decisions(world.store)] == ["advise"]
        assert world.launcher.starts == []
        assert await world.intents() == {}


async def test_a_pause_starts_and_stops_nothing_until_it_is_undone(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        registry = ScalingRegistry(world.store, world.config)
        one = world.controller()
        want(one, 1)
        await world.round(one)
        await world.ready()
        await registry.pause("m", "a")
        want(one, 4)
        await world.round(one, times=2)
        assert len(world.launcher.starts) == 1
        want(one, 0)
        await world.round(one, times=2)
        assert world.launcher.stops == []
        assert (await world.status()).paused
        await registry.resume("m", "a")
        want(one, 2)
        await world.round(one)
        assert len(world.launcher.starts) == 2


async def test_a_size_that_is_set_reaches_the_scaler_and_may_be_below_min(store_url: str) -> None:
    async with scaled_world(store_url, min=2) as world:
        registry = ScalingRegistry(world.store, world.config)
        one = world.controller()
        await registry.set_replicas("m", "p", 0, "a")
        await world.round(one)
        assert scaler_of(one).snapshots[-1].pinned == {"p": 0}
        (pool,) = (await world.status()).pools
        assert (pool.pinned, pool.wanted) == (0, 0)
        await registry.set_replicas("m", "p", None, "a")
        await world.round(one)
        assert (await world.status()).pools[0].wanted == 2


async def test_a_replica_that_drains_is_shown_so_among_all_replicas(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 1)
        await world.round(one)
        await world.ready()
        world.in_flight = dict.fromkeys(world.launcher.starts, 5)
        want(one, 0)
        await world.round(one, times=2)
        (row,) = await replica_registry(world.store, world.config).replicas("m")
        assert row.drain is not None and row.drain.actor == "scaling"


async def test_a_request_that_waits_for_a_first_replica_is_looked_at_at_once(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.scaling.leasing.leased_rounds.ROUND_SECONDS", 30.0)
    async with scaled_world(store_url) as world:
        one = world.controller()
        await one.renew()
        await world.say()
        running = asyncio.create_task(one.run(world.store))
        await until(lambda: len(scaler_of(one).snapshots) > 1)
        seen = len(scaler_of(one).snapshots)
        want(one, 1)
        await announce_demand(world.store)
        await until(lambda: len(scaler_of(one).snapshots) > seen)
        await until(lambda: world.launcher.starts)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_an_address_that_is_none_keeps_no_other_replica_from_draining() -> None:
    (pool,) = scaled_models(scaled_config())[0].pools
    wrong, right = (
        msgspec.structs.replace(new_intent(pool, id_, 0.0), state="drain", address=address)
        for id_, address in (("p-1", "grpc://[nonsense"), ("p-2", "grpc://h:1"))
    )
    assert [drain.target for drain in drains_of_intents([wrong, right])] == ["p/h-1"]
