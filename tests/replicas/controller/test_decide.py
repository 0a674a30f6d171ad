import random
from itertools import pairwise
from math import inf, nan

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protos.types import Role, Shape
from replicas.controller.model_scaler import ModelScaler
from replicas.controller.scaling_settings import ModelScaling
from replicas.controller.snapshot import Demand, Forecast, PoolSnapshot, Snapshot
from tests.replicas.controller.samples import PlainFleet, demand, pool, ready, scaling, snapshot


def scaler(*, least: int = 1, most: int = 8, **fields: object) -> ModelScaler:
    return ModelScaler(scaling(pool(least=least, most=most, startup_seconds=100.0), **fields))


RATES = st.one_of(st.floats(0, 200), st.sampled_from([nan, inf, -1.0]))
POOLS = st.builds(
    PoolSnapshot,
    ready=st.integers(0, 12),
    starting=st.lists(st.floats(0, 5000), max_size=5),
    running=st.integers(0, 5000),
    waiting=st.integers(0, 100),
    kv_used=st.floats(0, 1),
    occupancy=st.floats(0, 1),
    spot_ready=st.integers(0, 3),
    step_times=st.sampled_from([None, ready(1).step_times]),
    unavailable=st.sampled_from(["", "there are no machines"]),
)
SNAPSHOTS = st.lists(
    st.builds(
        Snapshot,
        now=st.floats(0, 20_000),
        demand=st.builds(
            Demand,
            window=st.sampled_from([0.0, 1.0, 30.0]),
            requests_per_second=RATES,
            prompt_tokens=st.sampled_from([0.0, 4000.0]),
            output_tokens=st.sampled_from([0.0, 1000.0]),
            waiting=st.integers(0, 1000),
            in_flight=st.integers(0, 1000),
            ttft_ratio=st.floats(0, 20),
            tpot_ratio=st.floats(0, 5),
        ),
        pools=st.dictionaries(st.sampled_from(["a", "b", "else"]), POOLS),
        pinned=st.dictionaries(st.just("a"), st.integers(-1, 20), max_size=1),
        forecast=st.none()
        | st.builds(
            Forecast,
            made=st.floats(0, 20_000),
            step=st.sampled_from([0.0, 300.0]),
            mean=st.lists(RATES, min_size=0, max_size=4),
            upper=st.lists(RATES, min_size=0, max_size=4),
            method=st.just("m"),
        ),
    ),
    min_size=1,
    max_size=8,
)


@given(SNAPSHOTS, st.integers(0, 2), st.sampled_from([None, 0.5, 20.0]), st.integers(0, 3))
@settings(max_examples=150)
def test_whatever_is_seen_counts_keep_their_bounds(
    seen: list[Snapshot], least: int, budget: float | None, spot: int
) -> None:
    model = scaling(
        pool("a", least, 6, price=2.0, spot_max=spot, spot_price=0.5), pool("b", 1, 3, shape=Shape(2)), budget=budget
    )
    scaler = ModelScaler(model)
    for each in seen:
        decision = scaler.decide(each)
        assert set(decision.pools) == {"a", "b"}
        for bounds in model.pools:
            count = decision.pools[bounds.name]
            pinned = each.pinned.get(bounds.name)
            assert count.wanted <= bounds.max
            assert count.wanted >= bounds.min or pinned is not None
            there = each.pools.get(bounds.name, PoolSnapshot()).spot_ready
            assert 0 <= count.spot <= min(count.wanted, max(bounds.spot_max, there))
        assert decision.reasons
        assert decision.pools["a"].reason
        # What is remembered survives a change of controller.
        other = ModelScaler(model)
        assert other.restore(scaler.memory())
        assert other.memory() == scaler.memory()


def test_a_load_that_grows_is_met_before_it_is_there() -> None:
    fleet = PlainFleet(scaler(least=3), "p", 3, 100.0)
    fleet.play(lambda now: 2.0, 300)
    assert fleet.ready == 3
    fleet.play(lambda now: 4.0, 300)
    # 4 requests/s need four replicas; as they came at once, so may the next 2.
    assert fleet.ready == 5
    fleet.play(lambda now: 6.0, 300)
    assert fleet.ready >= 6


def test_what_starts_is_not_started_again() -> None:
    fleet = PlainFleet(ModelScaler(scaling(pool(startup_seconds=600.0))), "p", 1, 600.0)
    wanted = fleet.play(lambda now: 5.0, 500)
    assert fleet.ready == 1
    assert max(wanted) <= 5
    assert len(set(wanted[10:])) <= 2


def test_replicas_go_when_they_have_not_been_needed() -> None:
    fleet = PlainFleet(scaler(), "p", 1, 100.0)
    fleet.play(lambda now: 6.0, 900)
    busy = fleet.ready
    assert busy >= 5
    wanted = fleet.play(lambda now: 1.0, 190)
    assert min(wanted[:18]) == busy
    fleet.play(lambda now: 1.0, 300)
    assert fleet.ready <= 2


@pytest.mark.parametrize("rate", [2.0, 5.3, 8.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_noisy_load_makes_no_flapping(rate: float, seed: int) -> None:
    fleet = PlainFleet(scaler(most=20), "p", 4, 100.0)
    fleet.play(lambda now: rate, 900, noise=random.Random(seed))
    wanted = fleet.play(lambda now: rate, 3600, noise=random.Random(seed + 100))
    changes = sum(one != other for one, other in pairwise(wanted))
    assert changes <= 4
    assert max(wanted) - min(wanted) <= 2


def test_a_flash_crowd_is_followed_at_once_and_its_growth_as_fast_as_allowed() -> None:
    model = scaling(pool(least=1, most=30, startup_seconds=60.0), up_factor=2.0, up_replicas=4, up_seconds=60.0)
    fleet = PlainFleet(ModelScaler(model), "p", 1, 60.0)
    fleet.play(lambda now: 1.0, 300)
    wanted = fleet.play(lambda now: 10.0, 300)
    # Eight serve what comes; that it goes on growing is only expected.
    assert wanted[0] == max(wanted[:12]) == 8
    assert max(wanted) <= 13
    assert any("as fast as it may" in reason for decision in fleet.decisions for reason in decision.reasons)


def test_to_zero_only_when_idle_and_allowed() -> None:
    fleet = PlainFleet(scaler(least=0, idle_seconds=120.0), "p", 1, 10.0)
    assert min(fleet.play(lambda now: 0.1, 600)) == 1
    assert min(fleet.play(lambda now: 0.0, 115)) == 1
    assert fleet.play(lambda now: 0.0, 60)[-1] == 0
    assert min(PlainFleet(scaler(least=1, idle_seconds=10.0), "p", 1, 10.0).play(lambda now: 0.0, 900)) == 1


@pytest.mark.parametrize("window", [0.0, 30.0])
def test_a_model_without_replicas_begins_at_zero_where_it_may(window: float) -> None:
    nobody = Demand(window=window, requests_per_second=0.0)

    def wanted(least: int, pools: dict[str, PoolSnapshot]) -> int:
        return scaler(least=least).decide(Snapshot(now=0.0, demand=nobody, pools=pools)).pools["p"].wanted

    assert [wanted(least, {"p": PoolSnapshot()}) for least in (0, 1)] == [0, 1]
    assert wanted(0, {"p": PoolSnapshot(ready=1)}) == 1, "what runs has its time"
    first = msgspec.structs.replace(nobody, waiting=1)
    waits = Snapshot(now=0.0, demand=first, pools={"p": PoolSnapshot()})
    begun = scaler(least=0).decide(waits)
    assert begun.pools["p"].wanted == 1
    assert begun.reasons == [
        "Nothing runs, and what a replica serves is not known yet: the least that serves is enough."
    ]


def test_a_model_that_has_just_been_looked_at_is_said_to_have_no_request_since_then_alone() -> None:
    asleep = scaler(least=0, idle_seconds=60.0)
    fleet = PlainFleet(asleep, "p", 0, 10.0)
    fleet.play(lambda now: 0.0, 100)
    assert {decision.reasons[0] for decision in fleet.decisions} == {"No request has come as far back as is known."}
    fleet.play(lambda now: 1.0, 60)
    fleet.play(lambda now: 0.0, 100)
    assert fleet.decisions[-1].reasons[0].startswith("No request has come for ")


def test_what_is_set_is_not_what_the_load_needs_where_that_is_not_known() -> None:
    decide = scaler(least=0).decide
    for now in range(3):
        nobody = PoolSnapshot(ready=7, occupancy=0.1)
        seen = Snapshot(now=float(now), demand=Demand(window=30.0, requests_per_second=1.0), pools={"p": nobody})
        found = decide(msgspec.structs.replace(seen, pinned={"p": 7})).pools["p"]
        assert (found.wanted, found.needed) == (7, 1)


def test_from_zero_on_the_first_waiting_request() -> None:
    asleep = scaler(least=0, idle_seconds=10.0)
    fleet = PlainFleet(asleep, "p", 0, 10.0)
    fleet.play(lambda now: 0.0, 60)
    nobody = Demand(window=30.0, requests_per_second=0.0)
    assert asleep.decide(Snapshot(now=60.0, demand=nobody, pools={"p": PoolSnapshot()})).pools["p"].wanted == 0
    first = msgspec.structs.replace(nobody, waiting=1)
    assert asleep.decide(Snapshot(now=61.0, demand=first, pools={"p": PoolSnapshot()})).pools["p"].wanted == 1


def test_a_pair_wakes_on_both_sides() -> None:
    model = scaling(pool("p", 0, 4, role=Role.PREFILL), pool("d", 0, 4, role=Role.DECODE))
    first = Demand(window=30.0, requests_per_second=0.1, waiting=1)
    found = ModelScaler(model).decide(Snapshot(now=1.0, demand=first, pools={"p": PoolSnapshot(), "d": PoolSnapshot()}))
    assert (found.pools["p"].wanted, found.pools["d"].wanted) == (1, 1)


def test_a_clock_that_jumps_gives_nothing_back_by_mistake() -> None:
    fleet = PlainFleet(scaler(), "p", 1, 100.0)
    fleet.play(lambda now: 6.0, 900)
    had = fleet.ready
    for jump in (86_400.0, -50_000.0, 3600.0):
        fleet.now += jump
        assert fleet.play(lambda now: 6.0, 10)[-1] == had
    fleet.now += 3600.0
    # Nothing is known of the last hour, so the window begins anew.
    assert fleet.play(lambda now: 1.0, 5)[-1] == had


def test_a_pool_that_is_missing_stays_as_it_is() -> None:
    known = scaler()
    fleet = PlainFleet(known, "p", 1, 100.0)
    fleet.play(lambda now: 6.0, 900)
    decision = known.decide(Snapshot(now=fleet.now, demand=demand(6.0), pools={}))
    assert decision.pools["p"].wanted == fleet.ready
    assert any("pool p" in warning for warning in decision.warnings)


def test_a_pool_that_cannot_grow_leaves_it_to_another() -> None:
    model = scaling(pool("cheap", 1, 9, price=1.0), pool("dear", 0, 9, price=3.0))
    stuck = {"cheap": ready(1, unavailable="no machines"), "dear": ready(0)}
    decision = ModelScaler(model).decide(snapshot(5.0, 4.0, stuck))
    assert decision.pools["cheap"].wanted == 1
    assert decision.pools["dear"].wanted >= 2
    assert any("no machines" in warning for warning in decision.warnings)


@pytest.mark.parametrize(("age", "wanted"), [(59.0, 3), (61.0, 4)])
def test_a_start_is_counted_on_for_a_minute_however_fast_others_were(age: float, wanted: int) -> None:
    starting = {"p": ready(2, starting=(age,), startup_seconds=5.0)}
    assert scaler().decide(snapshot(5.0, 3.0, starting)).pools["p"].wanted == wanted


def test_starts_that_take_too_long_are_not_counted_on() -> None:
    stuck = {"p": ready(1, starting=(20.0, 5000.0), startup_seconds=100.0)}
    decision = scaler().decide(snapshot(5.0, 3.0, stuck))
    assert decision.pools["p"].wanted == 4
    assert any("too long" in warning for warning in decision.warnings)


def test_what_an_operator_sets_replaces_what_would_be_wanted() -> None:
    held = scaler()
    assert held.decide(snapshot(1.0, 9.0, {"p": ready(2)}, pinned={"p": 3})).pools["p"].wanted == 3
    assert held.decide(snapshot(2.0, 9.0, {"p": ready(3)}, pinned={"p": 0})).pools["p"].wanted == 0
    beyond = held.decide(snapshot(3.0, 9.0, {"p": ready(3)}, pinned={"p": 30}))
    assert beyond.pools["p"].wanted == 8
    assert beyond.warnings


def test_the_budget_is_kept_to_and_what_it_costs_is_said() -> None:
    model = scaling(pool(least=1, most=20, price=3.0), budget=6.0, up_replicas=20)
    decision = ModelScaler(model).decide(snapshot(5.0, 10.0, {"p": ready(1)}))
    assert decision.pools["p"].wanted == 2
    assert decision.cost == 6.0
    assert any("of the load in time" in warning for warning in decision.warnings)
    assert decision.pools["p"].needed > 6


def test_a_budget_bounds_nothing_where_no_price_is_known() -> None:
    priced = pool("q", 0, 1, shape=Shape(2), price=3.0)
    for pools, few in (([pool(most=20)], False), ([pool(most=20), priced], True)):
        model = scaling(*pools, budget=3.0, up_replicas=20)
        decision = ModelScaler(model).decide(snapshot(5.0, 10.0, {one.name: ready(1) for one in pools}))
        assert (decision.pools["p"].wanted < 3) is few
        assert any("budget" in warning for warning in decision.warnings) is few


def test_the_budget_buys_preemptible_capacity_at_its_price() -> None:
    spot = pool(least=1, most=20, price=3.0, spot_max=19, spot_price=0.5)
    known = ModelScaler(scaling(spot, budget=6.0, up_replicas=20))
    decision = known.decide(snapshot(5.0, 10.0, {"p": ready(1)}))
    found = decision.pools["p"]
    assert found.wanted > 6
    assert found.wanted - found.spot == 1
    assert decision.cost is not None
    assert decision.cost <= 9.0
    # Lost at once and started on demand instead, they would cost more than that.
    for now in range(10, 60, 5):
        known.decide(snapshot(float(now), 10.0, {"p": ready(found.wanted, spot_ready=found.spot)}))
    lost = known.decide(snapshot(60.0, 10.0, {"p": ready(1)}))
    assert lost.pools["p"].wanted == 2
    assert any("of the load in time" in warning for warning in lost.warnings)


def test_the_mix_goes_by_the_prices_that_are_paid() -> None:
    cheap = pool("a", 0, 9, price=3.0)
    for spot_price, chosen in ((None, "a"), (0.5, "b")):
        other = pool("b", 0, 9, price=4.0, spot_max=9 if spot_price else 0, spot_price=spot_price)
        decision = ModelScaler(scaling(cheap, other, up_replicas=9)).decide(
            snapshot(5.0, 6.0, {"a": ready(0), "b": ready(0)})
        )
        assert {name for name, one in decision.pools.items() if one.wanted} == {chosen}


def test_cost_is_unknown_where_a_price_is() -> None:
    assert scaler().decide(snapshot(5.0, 1.0, {"p": ready(1)})).cost is None


def test_without_step_times_what_was_served_is_gone_by() -> None:
    known = scaler(most=20)
    for now in range(0, 300, 5):
        seen = Snapshot(now=float(now), demand=demand(2.0, ttft_ratio=0.5), pools={"p": ready(2, step_times=None)})
        first = known.decide(seen)
        assert first.pools["p"].wanted == 2
    for now in range(300, 400, 5):
        first = known.decide(snapshot(float(now), 5.0, {"p": ready(2, step_times=None)}))
    assert 4 <= first.pools["p"].wanted <= 8


def test_a_shape_without_step_times_is_judged_by_another() -> None:
    model = scaling(pool("small", 0, 9, price=3.0), pool("large", 0, 9, price=4.0, shape=Shape(2)), up_replicas=9)
    pools = {"small": ready(1), "large": ready(0, step_times=None)}
    decision = ModelScaler(model).decide(snapshot(5.0, 6.0, pools))
    assert decision.pools["large"].wanted >= 2
    assert any("pool large" in reason and "of pool small" in reason for reason in decision.reasons)


def test_clients_that_wait_longer_than_the_rate_explains_get_more() -> None:
    fleet = PlainFleet(scaler(most=12), "p", 4, 30.0)
    fleet.play(lambda now: 3.0, 600, ttft_ratio=4.0, tpot_ratio=1.3)
    assert fleet.ready > 4
    assert fleet.decisions[-1].inputs["capacity_factor"] < 1.0


def test_a_target_that_no_number_of_replicas_meets_keeps_none_of_them() -> None:
    fleet = PlainFleet(scaler(most=12), "p", 6, 30.0)
    assert fleet.play(lambda now: 0.3, 900, tpot_ratio=0.9)[-1] == 1


def test_a_forecast_is_prepared_for_and_nonsense_is_not() -> None:
    def tells(mean: float, upper: float) -> Forecast:
        return Forecast(
            made=0.0, step=300.0, mean=(2.0, mean, mean, mean), upper=(2.5, upper, upper, upper), method="m"
        )

    seen = {"p": ready(2)}
    foreseen = scaler().decide(snapshot(250.0, 2.0, seen, forecast=tells(6.0, 7.0)))
    assert foreseen.pools["p"].wanted >= 5
    assert any("forecast" in reason for reason in foreseen.reasons)
    for bad in (tells(nan, 7.0), tells(-1.0, 7.0)):
        decision = scaler().decide(snapshot(250.0, 2.0, seen, forecast=bad))
        assert decision.pools["p"].wanted == 2
        assert any("forecast" in warning for warning in decision.warnings)
    refuted = scaler().decide(snapshot(250.0, 9.0, {"p": ready(8)}, forecast=tells(2.0, 2.5)))
    assert any("not used" in warning for warning in refuted.warnings)


def test_memory_that_cannot_be_read_changes_nothing() -> None:
    one = scaler()
    one.decide(snapshot(5.0, 2.0, {"p": ready(2)}))
    before = one.memory()
    assert not one.restore(b"{")
    assert not one.restore(b'{"history": 5}')
    assert not one.restore(b'{"ready": {"\xff": 1}}')
    assert one.memory() == before


def test_another_controller_decides_the_same() -> None:
    first, second = scaler(), scaler()
    fleet = PlainFleet(first, "p", 1, 100.0)
    fleet.play(lambda now: 6.0, 700)
    assert second.restore(first.memory())
    seen = snapshot(fleet.now, 1.0, {"p": ready(fleet.ready)})
    assert first.decide(seen) == second.decide(seen)


def test_a_cheaper_mix_is_made_before_the_other_goes() -> None:
    model: ModelScaling = scaling(
        pool("old", 0, 9, price=3.0), pool("new", 0, 9, price=1.0), down_seconds=60.0, up_replicas=9
    )
    known = ModelScaler(model)
    pools = {"old": ready(4), "new": ready(0)}
    decision = known.decide(snapshot(0.0, 3.0, pools))
    for now in range(5, 200, 5):
        decision = known.decide(snapshot(float(now), 3.0, pools))
    assert decision.pools["new"].wanted >= 3
    assert decision.pools["old"].wanted == 3
    pools = {"old": ready(3), "new": ready(decision.pools["new"].wanted)}
    for now in range(200, 400, 5):
        decision = known.decide(snapshot(float(now), 3.0, pools))
    assert decision.pools["old"].wanted == 0


def test_replicas_go_step_by_step_as_far_as_their_load_was_proven() -> None:
    fleet = PlainFleet(scaler(least=1), "p", 8, 100.0)
    wanted = fleet.play(lambda now: 2.0, 3600, ttft_ratio=0.5)
    steps = [8, *(later for earlier, later in pairwise(wanted) if later != earlier)]
    # By its step times two replicas are enough from the beginning; nobody has seen them serve as much.
    assert steps[-1] == 2
    assert steps[1] == 7
    assert all(later >= earlier / 1.26 - 1e-9 or earlier - later == 1 for earlier, later in pairwise(steps))


def test_a_start_that_hangs_keeps_no_set_size_and_no_idle_model_from_zero() -> None:
    hung = {"p": ready(1, starting=(5000.0,), startup_seconds=100.0)}
    for size in (0, 1):
        decision = scaler().decide(snapshot(5.0, 3.0, hung, pinned={"p": size}))
        assert decision.pools["p"].wanted == size
    idle = scaler(least=0, idle_seconds=60.0)
    idle.decide(snapshot(0.0, 3.0, hung))
    assert idle.decide(snapshot(30.0, 0.0, hung)).pools["p"].wanted > 0
    assert idle.decide(snapshot(61.0, 0.0, hung)).pools["p"].wanted == 0
