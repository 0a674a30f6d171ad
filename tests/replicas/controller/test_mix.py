from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protos.types import Role, Shape
from replicas.controller.capacity import GRID, ReplicaCapacity
from replicas.controller.fleet_capacity import FleetCapacity
from replicas.controller.mix import PoolRange, best_within, cheapest_mix, deciding_prices
from tests.replicas.controller.samples import pool, scaling

#: role, rate of one, slots, price, least, most, running, (spot price, on demand before it, spot at most)
Spot = tuple[float | None, int, int]
POOLS = st.lists(
    st.tuples(
        st.sampled_from(list(Role)),
        st.floats(0.1, 5),
        st.sampled_from([1.0, 20.0, 300.0]),
        st.sampled_from([0.0, 1.0, 2.0, 2.5]),
        st.integers(0, 2),
        st.integers(0, 4),
        st.integers(0, 5),
        st.tuples(st.sampled_from([None, 0.3, 0.7]), st.integers(0, 2), st.integers(0, 3)),
    ),
    min_size=1,
    max_size=3,
)


def replica(rate: float, slots: float = 1.0, seconds: float = 10.0) -> ReplicaCapacity:
    rates = tuple(rate * part / GRID for part in range(GRID + 1))
    return ReplicaCapacity(
        slots=slots, answer_seconds=seconds, prompt_seconds=0.0, slack=2.0, rates=rates, bound="TPOT"
    )


def fleet(pools: list[tuple[Role, float, float, float, int, int, int, Spot]]) -> tuple[list[PoolRange], FleetCapacity]:
    ranges = [
        PoolRange(f"p{at}", role, least, least + more, price, running, *spot)
        for at, (role, _, _, price, least, more, running, spot) in enumerate(pools)
    ]
    known = {f"p{at}": replica(rate, slots) for at, (_, rate, slots, *_) in enumerate(pools)}
    model = scaling(*(pool(f"p{at}", role=role) for at, (role, *_) in enumerate(pools)))
    return ranges, FleetCapacity(model, known)


@given(POOLS, st.floats(0.01, 40))
@settings(max_examples=60)
def test_no_mix_that_serves_as_much_is_cheaper(
    pools: list[tuple[Role, float, float, float, int, int, int, Spot]], rate: float
) -> None:
    ranges, capacity = fleet(pools)
    costs = []
    for counts in product(*(range(each.least, each.most + 1) for each in ranges)):
        named = {each.name: count for each, count in zip(ranges, counts, strict=True)}
        if capacity.rate(named) >= rate:
            changes = sum(abs(named[each.name] - each.running) for each in ranges)
            costs.append((round(paid(ranges, named), 9), changes))
    found = cheapest_mix(ranges, capacity, rate)
    if not costs:
        assert found is None
        return
    assert found is not None
    assert capacity.rate(found) >= rate * (1 - 1e-6)
    assert all(each.least <= found[each.name] <= each.most for each in ranges)
    assert round(paid(ranges, found), 9) <= min(costs)[0]


def paid(ranges: list[PoolRange], counts: dict[str, int]) -> float:
    """What the replicas cost one by one."""
    total = 0.0
    for each in ranges:
        for at in range(counts[each.name]):
            on_spot = each.spot_price is not None and each.spot_after <= at < each.spot_after + each.spot_most
            total += each.spot_price if each.spot_price is not None and on_spot else each.price
    return total


def test_of_equal_mixes_the_nearest_to_what_runs_is_taken() -> None:
    for running in ((2, 0), (0, 2), (1, 1)):
        ranges = [PoolRange(name, Role.BOTH, 0, 4, 1.0, count) for name, count in zip("ab", running, strict=True)]
        capacity = FleetCapacity(scaling(pool("a"), pool("b")), {"a": replica(2.0), "b": replica(2.0)})
        assert cheapest_mix(ranges, capacity, capacity.rate({"a": 1, "b": 1})) == {"a": running[0], "b": running[1]}


def test_pairs_keep_their_ratio() -> None:
    model = scaling(pool("p", role=Role.PREFILL), pool("d", role=Role.DECODE))
    flat = {"p": replica(4.0, seconds=0.0), "d": replica(1.0, seconds=0.0)}
    ranges = [PoolRange("p", Role.PREFILL, 0, 20, 1.0), PoolRange("d", Role.DECODE, 0, 20, 1.0)]
    assert cheapest_mix(ranges, FleetCapacity(model, flat), 8.0) == {"p": 2, "d": 8}


def test_a_large_fleet_of_three_shapes_is_searched_quickly() -> None:
    ranges = [
        PoolRange("a", Role.BOTH, 0, 1024, 2.0),
        PoolRange("b", Role.BOTH, 0, 1024, 4.1),
        PoolRange("c", Role.BOTH, 0, 1024, 9.0),
    ]
    calls = 0

    class Counted(FleetCapacity):
        def rate(self, counts: object) -> float:
            nonlocal calls
            calls += 1
            return super().rate(counts)  # type: ignore[arg-type]

    capacity = Counted(
        scaling(pool("a"), pool("b"), pool("c")), {"a": replica(2.0, 40), "b": replica(4.4, 90), "c": replica(9.1, 200)}
    )
    found = cheapest_mix(ranges, capacity, 400.0)
    assert found is not None
    assert calls < 5000


def test_the_budget_buys_the_most_it_can() -> None:
    ranges = [PoolRange("a", Role.BOTH, 1, 9, 2.0), PoolRange("b", Role.BOTH, 0, 9, 5.0)]
    flat = {"a": replica(1.0, seconds=0.0), "b": replica(3.0, seconds=0.0)}
    capacity = FleetCapacity(scaling(pool("a"), pool("b")), flat)
    mix, served = best_within(ranges, capacity, 50.0, 12.0)
    assert mix["a"] * 2 + mix["b"] * 5 <= 12
    assert served == pytest.approx(7.0)
    assert best_within(ranges, capacity, 50.0, 0.0)[0] == {"a": 1, "b": 0}


def test_an_unknown_price_is_the_dearest() -> None:
    pools = [pool("a", price=2.0), pool("b", price=6.0, shape=Shape(2)), pool("c", shape=Shape(4))]
    assert deciding_prices(pools) == {"a": 2.0, "b": 6.0, "c": 12.0}
    assert deciding_prices([pool("c", shape=Shape(4))]) == {"c": 4.0}
