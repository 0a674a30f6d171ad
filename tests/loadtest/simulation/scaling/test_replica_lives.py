"""Lives of virtual replicas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.simulation.scaling.replica_lives import NOTICE_SECONDS, Life, Lives, Stage
from loadtest.simulation.scaling.virtual_pool import VirtualPool
from protos.types import Shape
from replicas.controller.decision import Decision, PoolDecision
from replicas.controller.scaling_settings import PoolScaling


class Plant:
    """Keeps what it is told; draining takes `drains` seconds."""

    def __init__(self, drains: float = 10.0) -> None:
        self.serving: set[str] = set()
        self.taken: list[str] = []
        self._drains = drains

    def ready(self, life: Life, now: float) -> None:
        assert life.id not in self.serving
        self.serving.add(life.id)

    def drain(self, life: Life, now: float) -> None:
        self.serving.remove(life.id)

    def ended(self, life: Life, now: float) -> float | None:
        end = life.drained + self._drains
        return end if end <= now else None

    def take(self, life: Life, now: float) -> None:
        assert life.id not in self.serving
        self.taken.append(life.id)


def pool(*, interruptions: float = 0.0, lost_at: float = float("inf")) -> VirtualPool:
    scaling = PoolScaling(
        name="p", shape=Shape(tp=2), min=0, max=9, price=4.0, spot_price=1.0, spot_max=9, startup_seconds=60.0
    )
    return VirtualPool(
        scaling=scaling, profile="llama-3.1-8b", interruptions_per_hour=interruptions, spot_lost_at=lost_at
    )


def want(count: int, spot: int = 0) -> Decision:
    return Decision(at=0.0, pools={"p": PoolDecision(wanted=count, spot=spot)}, cost=None, inputs={}, reasons=())


def test_a_replica_costs_from_its_start_until_it_has_drained() -> None:
    plant = Plant(drains=10.0)
    lives = Lives([pool()], plant, seed=0)
    lives.follow(want(1), 0.0)
    lives.advance(59.0)
    assert not plant.serving
    lives.advance(60.0)
    assert plant.serving == {"p-0"}
    lives.follow(want(0), 100.0)
    assert not plant.serving and lives.living("p", Stage.DRAINING)
    lives.advance(120.0)
    lives.finish(3600.0)
    assert plant.taken == ["p-0"]
    assert lives.replica_hours() == pytest.approx(110 / 3600)
    assert lives.gpu_hours == pytest.approx(220 / 3600)
    assert lives.cost == pytest.approx(110 / 3600 * 4.0)


def test_what_is_still_starting_is_given_up_first_and_never_serves() -> None:
    plant = Plant()
    lives = Lives([pool()], plant, seed=0)
    lives.begin(pool(), 1)
    lives.follow(want(2), 10.0)
    lives.follow(want(1), 20.0)
    lives.advance(1000.0)
    assert plant.serving == {"p-0"} and not plant.taken
    lives.finish(20.0)
    assert lives.replica_hours() == pytest.approx((20 + 10) / 3600)


def test_spot_capacity_gets_a_notice_and_is_taken_two_minutes_later() -> None:
    plant = Plant(drains=1000.0)
    lives = Lives([pool(interruptions=6.0)], plant, seed=3)
    lives.follow(want(2, spot=1), 0.0)
    for second in range(1, 36_000):
        lives.advance(float(second))
        if any(life.ends <= second for life in lives.all):
            break
    spot = next(life for life in lives.all if life.id in plant.taken)
    assert spot.spot and lives.interruptions == 1
    assert spot.stopped == pytest.approx(spot.drained + NOTICE_SECONDS)
    # The one on demand stays.
    assert len(lives.living("p", Stage.READY, Stage.STARTING)) == 1


def test_all_spot_capacity_may_be_lost_at_once_and_what_starts_after_that_is_not() -> None:
    lives = Lives([pool(lost_at=100.0)], Plant(), seed=0)
    lives.follow(want(5, spot=3), 0.0)
    lives.advance(90.0)
    lives.follow(want(6, spot=4), 90.0)
    lives.advance(100.0)
    left = lives.living("p", Stage.READY, Stage.STARTING)
    assert len(left) == 2 and not any(life.spot for life in left)
    assert lives.interruptions == 4
    lives.follow(want(5, spot=3), 110.0)
    lives.advance(10_000.0)
    assert lives.interruptions == 4 and len(lives.living("p", Stage.READY)) == 5


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.floats(1, 200)), max_size=30))
def test_after_each_decision_there_is_what_it_asks_for(decisions: list[tuple[int, int, float]]) -> None:
    plant = Plant()
    lives = Lives([pool()], plant, seed=0)
    now = 0.0
    for count, spot, seconds in decisions:
        now += seconds
        lives.advance(now)
        lives.follow(want(count, spot), now)
        living = lives.living("p", Stage.STARTING, Stage.READY)
        assert len(living) == count
        assert sum(life.spot for life in living) == min(spot, count)
        assert plant.serving == {life.id for life in living if life.stage is Stage.READY}
    lives.finish(now)
    assert lives.replica_hours() * 3600 <= now * len(lives.all) + 1e-6
