from typing import Any

import pytest

from gateway.fleets.reports import Reporter
from gateway.scaling.demand.demand_reports import ModelReport, PoolReport
from gateway.scaling.facts.fixed_pools import fixed_pools
from gateway.scaling.settings import scaled_models
from gateway.store.store_client import Store
from routing.estimates.step_model import LearnedSteps
from routing.health.replica_status import ReplicaStatus, State
from tests.gateway.scaling.scaled import World, scaled_config, scaler_of, want

STATIC = {"name": "own", "engine": "simulated", "shape": {"tp": 2}, "replicas": ["grpc://a:1", "grpc://b:1"]}


def status(id_: str, state: State = State.READY, pool: str = "own", **load: int) -> ReplicaStatus:
    given: dict[str, Any] = {"running": 0, "waiting": 0, "kv_blocks_used": 0} | load
    return ReplicaStatus(
        id_, pool, state, "", **given, kv_blocks_total=100, in_flight=0, share=1.0, breaker_seconds=0.0
    )


@pytest.mark.parametrize(
    ("states", "ready"),
    [
        ([State.READY], 1),
        ([State.RETURNING, State.READY, State.WEDGED], 1),
        ([State.READY, State.CONNECTING], 0),
        ([State.DRAINING], 0),
        ([State.EJECTED, State.EJECTED, State.READY], 0),
    ],
)
def test_a_replica_counts_where_most_workers_give_it_requests(states: list[State], ready: int) -> None:
    reports = [{"m": [status("own/0", state)]} for state in states]
    assert fixed_pools(reports, "m", ["own"])["own"].ready == ready


def test_loads_are_the_engines_whoever_tells_them() -> None:
    one = status("own/0", running=3, waiting=1, kv_blocks_used=50)
    other = status("own/1", running=1)
    ejected = status("own/2", State.EJECTED, running=9)
    scaled = status("p/x", pool="p", running=7)
    seen = fixed_pools([{"m": [one, other, ejected, scaled]}, {"m": [one, other, ejected]}], "m", ["own", "none"])
    assert set(seen) == {"own", "none"}
    assert (seen["own"].ready, seen["own"].running, seen["own"].waiting, seen["own"].kv_used) == (2, 4, 1, 0.25)
    assert seen["none"].ready == 0


def test_settings_tell_fixed_pools_from_others() -> None:
    (model,) = scaled_models(scaled_config(STATIC))
    assert [pool.name for pool in model.pools] == ["p"]
    assert list(model.fixed) == ["own"]
    assert [(pool.name, pool.fixed, pool.shape.tp) for pool in model.scaling.pools] == [
        ("p", False, 1),
        ("own", True, 2),
    ]


async def test_a_fixed_pool_is_counted_and_never_started_or_stopped(store_url: str) -> None:
    store = Store(store_url, timeout=5.0)
    try:
        world = World(store, scaled_config(STATIC))
        one = world.controller()
        steps = LearnedSteps(2, (1.0,) * 8, 1.0, 1.0, (9,) * 8, 9)
        world.demand = ModelReport(window=30.0, arrivals=30.0, pools={"own": PoolReport(steps=steps, kv_tokens=640)})
        reporter = Reporter(store, "other")
        await reporter.report({"m": [status("own/0", running=4), status("own/1")]})
        want(one, 1)
        await world.round(one)
        seen = scaler_of(one).snapshots[-1].pools
        assert (seen["own"].ready, seen["own"].running, seen["own"].kv_tokens) == (2, 4, 640)
        assert seen["own"].step_times is not None
        assert len(world.launcher.starts) == 1
        told = await world.status()
        assert told.fixed == {"own": 2}
        assert [pool.name for pool in told.pools] == ["p"]
    finally:
        await store.aclose()


async def test_a_model_with_work_may_have_none_of_its_own_beside_a_fixed_pool(store_url: str) -> None:
    store = Store(store_url, timeout=5.0)
    try:
        world = World(store, scaled_config(STATIC))
        one = world.controller()
        world.demand = ModelReport(window=30.0, arrivals=30.0, in_flight=3)
        await Reporter(store, "other").report({"m": [status("own/0")]})
        want(one, 0)
        await world.round(one)
        told = await world.status()
        assert (told.pools[0].wanted, told.warnings) == (0, [])
    finally:
        await store.aclose()


async def test_a_fixed_pool_that_comes_with_a_new_configuration_is_counted(store_url: str) -> None:
    store = Store(store_url, timeout=5.0)
    try:
        world = World(store, scaled_config())
        one = world.controller()
        await Reporter(store, "other").report({"m": [status("own/0")]})
        await world.round(one)
        assert (await world.status()).fixed == {}
        one.use(scaled_models(scaled_config(STATIC)))
        await world.round(one)
        assert (await world.status()).fixed == {"own": 1}
        one.use(scaled_models(scaled_config()))
        await world.round(one)
        assert (await world.status()).fixed == {}
    finally:
        await store.aclose()
