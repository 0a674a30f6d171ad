"""Pools whose replicas nothing starts or stops, beside those that scale."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.types import Shape
from replicas.controller.decision import Decision
from replicas.controller.mix import deciding_prices
from replicas.controller.model_scaler import ModelScaler
from replicas.controller.scaling_settings import PoolScaling
from replicas.controller.snapshot import Demand, PoolSnapshot, Snapshot
from tests.replicas.controller.samples import pool, ready, scaling, snapshot


def fixed(name: str = "f", **fields: object) -> PoolScaling:
    return pool(name, 0, 0, fixed=True, **fields)


def settled(scaler: ModelScaler, rate: float, pools: dict[str, PoolSnapshot], seconds: int = 700) -> Decision:
    """The decision after the same rate for so long, while nothing changes."""
    for now in range(0, seconds, 5):
        decision = scaler.decide(snapshot(float(now), rate, pools))
    return decision


def test_what_is_ready_in_a_fixed_pool_is_not_provided_once_more() -> None:
    alone = settled(ModelScaler(scaling(pool("p", 0, 9))), 6.0, {"p": ready(1)}, 10)
    beside = settled(ModelScaler(scaling(pool("p", 0, 9), fixed())), 6.0, {"p": ready(1), "f": ready(3)}, 10)
    assert alone.pools["p"].wanted - beside.pools["p"].wanted == 3
    assert set(beside.pools) == {"p"}


def test_where_fixed_replicas_are_enough_the_others_go() -> None:
    scaler = ModelScaler(scaling(pool("p", 0, 9), fixed()))
    assert settled(scaler, 2.0, {"p": ready(2), "f": ready(4)}).pools["p"].wanted == 0


def test_a_fixed_replica_that_is_lost_is_made_up_for_at_once() -> None:
    scaler = ModelScaler(scaling(pool("p", 0, 9), fixed()))
    assert settled(scaler, 2.0, {"p": PoolSnapshot(), "f": ready(4)}).pools["p"].wanted == 0
    lost = scaler.decide(snapshot(701.0, 2.0, {"p": PoolSnapshot(), "f": ready(0)}))
    assert lost.pools["p"].wanted >= 2


def test_fixed_replicas_cost_nothing_more() -> None:
    pools = [pool("p", 0, 9, price=2.0), fixed(price=5.0)]
    assert deciding_prices(pools) == {"p": 2.0, "f": 0.0}
    assert deciding_prices([pool("p", 0, 9), fixed(price=5.0)]) == {"p": 1.0, "f": 0.0}
    decision = settled(ModelScaler(scaling(*pools, budget=2.0)), 6.0, {"p": ready(1), "f": ready(4)}, 10)
    assert decision.cost == pytest.approx(2.0 * decision.pools["p"].wanted)
    assert not any("budget" in warning for warning in decision.warnings)


def test_a_fixed_pool_under_pressure_has_others_grow_where_nothing_is_known_of_either() -> None:
    scaler = ModelScaler(scaling(pool("p", 0, 9, shape=Shape(2)), fixed()))
    late = Demand(window=30.0, requests_per_second=3.0, waiting=90, in_flight=9, ttft_ratio=6.0)
    pools = {"p": PoolSnapshot(), "f": PoolSnapshot(ready=4, kv_used=1.0, occupancy=1.0)}
    for now in range(0, 100, 5):
        decision = scaler.decide(Snapshot(now=float(now), demand=late, pools=pools))
    # Four replicas of one GPU lack some, and two of those make one replica of the pool that can grow.
    assert 1 <= decision.pools["p"].wanted <= 2


def test_a_model_without_requests_goes_to_zero_beside_a_fixed_pool() -> None:
    scaler = ModelScaler(scaling(pool("p", 0, 9), fixed(), idle_seconds=60.0))
    nobody = Demand(window=30.0, requests_per_second=0.0)
    for now in range(0, 100, 5):
        decision = scaler.decide(Snapshot(now=float(now), demand=nobody, pools={"p": ready(1), "f": ready(2)}))
    assert decision.pools["p"].wanted == 0


@given(rate=st.floats(0.1, 30), there=st.integers(0, 6), more=st.integers(1, 4), known=st.booleans())
def test_more_that_is_fixed_never_makes_more_be_needed(rate: float, there: int, more: int, known: bool) -> None:
    def needed(count: int) -> int:
        scaler = ModelScaler(scaling(pool("p", 0, 20, price=2.0), fixed()))
        beside = ready(count) if known else msgspec.structs.replace(ready(count), step_times=None)
        return scaler.decide(snapshot(1.0, rate, {"p": ready(1), "f": beside})).pools["p"].needed

    assert needed(there + more) <= needed(there)
