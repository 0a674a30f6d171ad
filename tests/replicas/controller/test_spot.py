import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicas.controller.decision import Decision
from replicas.controller.model_scaler import ModelScaler
from replicas.controller.pool_state import PoolState
from replicas.controller.scaling_settings import ModelScaling
from replicas.controller.snapshot import PoolSnapshot
from replicas.controller.spot import SpotPlan, reserve_for, with_spot, worth
from tests.replicas.controller.samples import pool, ready, scaling, snapshot


def plan(
    count: int,
    *,
    on_demand: int,
    spot: int,
    starting: int = 0,
    least: int = 2,
    price: float | None = 1.0,
    spot_price: float | None = 0.35,
    interruptions: float = 0.1,
    wary: bool = False,
) -> SpotPlan:
    settings = pool(least=least, most=20, price=price, spot_max=15)
    seen = PoolSnapshot(ready=on_demand + spot, starting=(5.0,) * starting, spot_ready=spot, spot_starting=starting)
    state = PoolState(
        settings=settings,
        snapshot=seen,
        startup=120.0,
        ready=on_demand + spot,
        coming=starting,
        stuck=0,
        seen=True,
        decided=count,
        reserve=0,
    )
    return with_spot(state, count, spot_price, interruptions, wary=wary)


@given(st.integers(2, 20), st.integers(0, 10), st.integers(0, 10), st.integers(0, 3), st.floats(0, 20), st.booleans())
def test_there_are_never_too_few_nor_too_many(
    count: int, on_demand: int, spot: int, starting: int, interruptions: float, wary: bool
) -> None:
    found = plan(count, on_demand=on_demand, spot=spot, starting=starting, interruptions=interruptions, wary=wary)
    assert count <= found.wanted <= 20
    assert 0 <= found.spot <= found.wanted
    # The base stays, and replicas that are there are replaced only by ones that are ready.
    assert found.wanted - found.spot >= min(2, count)
    kept = min(on_demand, found.wanted - found.spot) + min(spot, found.spot)
    assert kept >= min(count, on_demand + spot)


def test_a_base_on_demand_and_the_rest_on_spot() -> None:
    found = plan(10, on_demand=2, spot=8)
    assert found.wanted - found.spot == 2
    assert found.spot == 8 + reserve_for(8, 0.1, 120.0)


def test_on_demand_ones_stay_until_spot_ones_are_ready() -> None:
    assert plan(6, on_demand=6, spot=0).wanted - plan(6, on_demand=6, spot=0).spot == 6
    later = plan(6, on_demand=6, spot=3, starting=1)
    assert later.wanted - later.spot == 3


@pytest.mark.parametrize(
    ("price", "spot_price", "interruptions"), [(1.0, 1.0, 0.0), (1.0, 0.9, 10.0), (None, 0.1, 0.0), (1.0, None, 0.0)]
)
def test_spot_that_is_not_cheaper_is_not_taken(
    price: float | None, spot_price: float | None, interruptions: float
) -> None:
    found = plan(6, on_demand=6, spot=0, price=price, spot_price=spot_price, interruptions=interruptions)
    assert (found.wanted, found.spot) == (6, 0)


def test_interruptions_make_spot_dearer_and_need_a_reserve() -> None:
    assert worth(1.0, 0.4, 3.0, 120.0) == pytest.approx(0.44)
    assert reserve_for(10, 0.0, 120.0) == 0
    assert 1 <= reserve_for(10, 0.5, 120.0) <= 3
    assert reserve_for(10, 1e6, 120.0) == 10


def market(**fields: object) -> ModelScaling:
    return scaling(pool(least=3, most=12, price=1.0, spot_max=9, spot_price=0.35, startup_seconds=100.0), **fields)


def test_the_reserve_is_no_capacity_that_is_given_back() -> None:
    known = ModelScaler(market(down_seconds=60.0))
    on_demand, spot = 3, 0
    totals = []
    for now in range(0, 1200, 5):
        seen = ready(on_demand + spot, spot_ready=spot)
        found = known.decide(snapshot(float(now), 6.0, {"p": seen}, interruptions_per_hour={"p": 0.5})).pools["p"]
        spot, on_demand = found.spot, found.wanted - found.spot
        totals.append(found.wanted)
    assert on_demand == 3
    assert spot >= 3
    assert len(set(totals[20:])) == 1


def test_what_a_slow_launcher_has_not_started_yet_is_not_lost() -> None:
    known = ModelScaler(market())
    for now in range(0, 60, 5):
        found = known.decide(snapshot(float(now), 6.0, {"p": ready(3)}))
        assert found.pools["p"].spot >= 2
    seen = ready(3, spot_starting=found.pools["p"].spot, starting=[1.0] * found.pools["p"].spot)
    assert known.decide(snapshot(60.0, 6.0, {"p": seen})).pools["p"].spot >= 2
    # They are lost one after the other, and none comes in their place.
    for left, spot in ((2, True), (1, False)):
        seen = ready(3 + left, spot_ready=left)
        wary = any("were lost" in reason for reason in known.decide(snapshot(67.0 - left, 6.0, {"p": seen})).reasons)
        assert wary is not spot


def test_after_losing_all_spot_at_once_others_start_on_demand() -> None:
    known = ModelScaler(market())
    on_demand, spot = 3, 0
    for now in range(0, 300, 5):
        found = known.decide(snapshot(float(now), 6.0, {"p": ready(on_demand + spot, spot_ready=spot)})).pools["p"]
        spot, on_demand = found.spot, found.wanted - found.spot
    assert spot >= 2
    lost = known.decide(snapshot(300.0, 6.0, {"p": ready(on_demand)}))
    assert lost.pools["p"].spot == 0
    assert lost.pools["p"].wanted >= 5
    assert any("were lost" in reason for reason in lost.reasons)
    much_later = None
    for now in range(305, 2400, 5):
        much_later = known.decide(snapshot(float(now), 6.0, {"p": ready(6)}))
    assert much_later is not None
    assert much_later.pools["p"].spot >= 2


class RenewedStarts:
    """Spot replicas of which one is lost every five minutes, as starts in their place fail and are asked for anew."""

    def __init__(self, *, stays: int = 0) -> None:
        """`stays` of them are never lost."""
        self.known = ModelScaler(market())
        self.on_demand, self.spot, self.stays = 3, 0, stays

    def play(self, seconds: int, lost_at: int) -> list[Decision]:
        decisions, starting = [], 0
        for now in range(0, seconds, 5):
            if now >= lost_at and not (now - lost_at) % 300:
                self.spot = max(self.spot - 1, self.stays)
            ages = [float(now % 120)] * starting
            seen = ready(self.on_demand + self.spot, spot_ready=self.spot, starting=ages, spot_starting=starting)
            decisions.append(self.known.decide(snapshot(float(now), 8.0, {"p": seen})))
            wanted = decisions[-1].pools["p"]
            self.on_demand = wanted.wanted - wanted.spot
            if now < lost_at:
                self.spot = wanted.spot
            starting = max(wanted.spot - self.spot, 0)
        return decisions


def test_spot_that_is_lost_one_after_the_other_and_does_not_come_again_is_made_up_for() -> None:
    world = RenewedStarts()
    decisions = world.play(3000, lost_at=600)
    needed = decisions[0].pools["p"].wanted
    assert decisions[119].pools["p"].spot == needed - 3 >= 3
    assert any("were lost or do not come" in reason for reason in decisions[-1].reasons)
    assert (world.on_demand, world.spot) == (needed, 0)
    # What was started on demand stays when spot is tried again, and for as long as that does not come.
    world.play(3000, lost_at=0)
    assert world.on_demand == needed


def test_a_few_spot_replicas_that_do_not_come_again_make_nobody_wary() -> None:
    world = RenewedStarts(stays=2)
    decisions = world.play(3000, lost_at=600)
    assert decisions[119].pools["p"].spot < 6
    assert not any("do not come" in reason for one in decisions for reason in one.reasons)
