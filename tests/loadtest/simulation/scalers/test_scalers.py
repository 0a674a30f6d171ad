"""Other systems' scaling laws: what each does by its published figures."""

from collections.abc import Callable

import pytest

from loadtest.simulation.scalers import LAWS
from loadtest.simulation.scalers.benchmark import Benchmark
from loadtest.simulation.scalers.dynamo import Kalman
from loadtest.simulation.scalers.one_pool import OnePool, Window
from protos.types import Shape
from replicas.controller.scaling_settings import PoolScaling, Slo
from replicas.controller.snapshot import Demand, PoolSnapshot, Snapshot
from routing.estimates.step_model import StepModel

POOL = PoolScaling(name="p", shape=Shape(tp=2), min=1, max=20)
BENCHMARK = Benchmark(rate=2.0, in_flight=100.0)


class Fleet:
    """A fleet that is at once what its scaler wants, or whose starts never end."""

    def __init__(self, law: str, ready: int) -> None:
        self.scaler = OnePool(law, POOL, LAWS[law](BENCHMARK, Slo()))
        self.ready, self.wanted = ready, ready
        self.now = 0.0

    def run(self, seconds: float, demand: Callable[[int], Demand], *, grows: bool = True, kv: float = 0.3) -> list[int]:
        """Return what was wanted every 5 seconds; `demand` is by the count of ready replicas."""
        found = []
        until = self.now + seconds
        while self.now < until:
            starting = max(0, self.wanted - self.ready)
            pool = PoolSnapshot(
                ready=self.ready, starting=(1.0,) * starting, kv_used=kv, step_times=StepModel(2), kv_tokens=10_000
            )
            decision = self.scaler.decide(Snapshot(now=self.now, demand=demand(self.ready), pools={"p": pool}))
            self.wanted = decision.pools["p"].wanted
            self.ready = self.wanted if grows else min(self.ready, self.wanted)
            found.append(self.wanted)
            self.now += 5.0
        return found


def flight(total: int, **more: float) -> Demand:
    rate = more.pop("rate", 1.0)
    return Demand(window=30.0, requests_per_second=rate, prompt_tokens=500, output_tokens=100, in_flight=total, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("law", LAWS)
def test_it_stays_within_bounds_whatever_comes(law: str) -> None:
    fleet = Fleet(law, 3)
    wanted = fleet.run(600, lambda _: flight(100_000, rate=1e6, ttft_ratio=9.0), kv=1.0)
    wanted += fleet.run(3600, lambda _: flight(0, rate=0.0), kv=0.0)
    assert min(wanted) >= POOL.min and max(wanted) <= POOL.max


@pytest.mark.parametrize("law", ["hpa", "kpa", "apa"])
def test_laws_of_concurrency_reach_what_it_asks_for(law: str) -> None:
    fleet = Fleet(law, 2)
    fleet.run(300, lambda _: flight(1000))
    share = {"hpa": 0.8, "kpa": 0.7, "apa": 1.0}[law]
    assert 1000 / (share * 100) * 0.9 <= fleet.wanted <= 1000 / (share * 100) * 1.12 + 1


def test_hpa_goes_down_to_the_highest_of_five_minutes() -> None:
    fleet = Fleet("hpa", 10)
    fleet.run(60, lambda _: flight(800))
    assert set(fleet.run(240, lambda _: flight(160))) == {10}
    fleet.run(120, lambda _: flight(160))
    assert fleet.wanted == 2


def test_hpa_waits_for_pods_that_start() -> None:
    fleet = Fleet("hpa", 4)
    wanted = fleet.run(300, lambda _: flight(640), grows=False)
    assert wanted[-1] == 8


def test_kpa_panics_at_twice_of_what_is_ready_and_holds_for_a_minute() -> None:
    fleet = Fleet("kpa", 2)
    fleet.run(60, lambda _: flight(140))
    fleet.run(10, lambda _: flight(1400))
    assert fleet.wanted >= 8
    held = fleet.run(30, lambda _: flight(140))
    assert min(held) >= 8
    fleet.run(200, lambda _: flight(140))
    assert fleet.wanted == 2


def test_llmd_goes_up_by_the_ratio_and_down_one_by_one() -> None:
    fleet = Fleet("llmd", 4)
    fleet.run(60, lambda _: flight(10, ttft_ratio=0.8))
    assert fleet.wanted > 4
    high = fleet.wanted
    wanted = fleet.run(900, lambda _: flight(10, ttft_ratio=0.1), kv=0.05)
    steps = [before - after for before, after in zip([high, *wanted], wanted, strict=False) if after < before]
    assert steps and set(steps) == {1} and fleet.wanted < high


def test_llmd_keeps_its_count_between_both_thresholds() -> None:
    assert set(Fleet("llmd", 5).run(600, lambda _: flight(10, ttft_ratio=0.45))) == {5}


def test_wva_adds_one_when_there_is_no_spare_kv_and_none_while_one_starts() -> None:
    assert Fleet("wva", 3).run(300, lambda _: flight(10), grows=False, kv=0.75)[-1] == 4
    assert Fleet("wva", 3).run(300, lambda _: flight(10), kv=0.75)[-1] > 4


def test_dynamo_follows_the_rate_every_three_minutes() -> None:
    fleet = Fleet("dynamo", 2)
    wanted = fleet.run(179, lambda _: flight(10, rate=12.0), kv=2.0)
    assert set(wanted) == {2}
    fleet.run(1500, lambda _: flight(10, rate=12.0), kv=2.0)
    assert fleet.wanted >= 6


def test_a_local_linear_trend_is_followed() -> None:
    trend = Kalman()
    said = [trend.next(10.0 + 2.0 * step) for step in range(40)]
    assert said[-1] == pytest.approx(10.0 + 2.0 * 40, rel=0.05)


def test_a_window_forgets() -> None:
    window = Window(10.0)
    for now, value in ((0.0, 5.0), (5.0, 1.0), (10.0, 3.0)):
        window.add(now, value)
    assert (window.most, window.least, window.mean) == (3.0, 1.0, 2.0)
