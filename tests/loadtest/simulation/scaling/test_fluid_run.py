"""The fluid mode, beside single requests that it stands for."""

import pytest

from loadtest.simulation.scalers.static import Static
from loadtest.simulation.scaling.calibration import Calibration, calibrate
from loadtest.simulation.scaling.fluid_run import FluidRun, run_fluid
from loadtest.simulation.scaling.load_lengths import Lengths
from loadtest.simulation.scaling.scaling_load import RateCurve, ScalingLoad
from loadtest.simulation.scaling.scaling_study import Measured, Scenario, run_contender
from loadtest.simulation.scaling.virtual_pool import VirtualPool
from protos.types import Shape
from replicas.controller.scaling_settings import PoolScaling

#: Answers and prompts that vary as log-normal ones do.
LENGTHS = Lengths((0.0, 0.25, 0.5, 0.75, 0.95, 1.0), (100, 400, 800, 1200, 3000, 6000), (5, 60, 120, 240, 500, 900))
POOL = VirtualPool(
    scaling=PoolScaling(name="p", shape=Shape(tp=2), min=1, max=8, price=10.0, startup_seconds=60.0),
    profile="llama-3.1-70b",
)


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return calibrate(POOL, LENGTHS, ScalingLoad(name="", curve=RateCurve((0.0,), (1.0,), 1.0), lengths=LENGTHS).slo)


def load_of(calibration: Calibration, *parts: float, seconds: float = 100.0) -> ScalingLoad:
    """Return rates in parts of one replica's goodput, going in lines."""
    rate = calibration.goodput(0.99).rate
    starts = tuple(seconds * place for place in range(len(parts)))
    curve = RateCurve(starts, tuple(part * rate for part in parts), seconds * len(parts), smooth=True)
    return ScalingLoad(name="made", curve=curve, lengths=LENGTHS)


def test_calibrated_rates_ascend_from_rest_to_overload(calibration: Calibration) -> None:
    points = calibration.points
    assert [point.rate for point in points] == sorted(point.rate for point in points)
    assert [point.answers for point in points] == sorted(point.answers for point in points)
    assert points[0].in_time > 0.99 > points[-1].in_time
    goodput = calibration.goodput(0.99)
    assert points[0].rate < goodput.rate < calibration.most.rate
    assert calibration.steps.steps > 0


def test_a_steady_state_is_steady(calibration: Calibration) -> None:
    point = calibration.goodput(0.99)
    assert calibration.served(point.answers, point.rate) == pytest.approx(point.rate, rel=1e-6)
    # Where more requests begin, fewer end: their prompts lengthen the steps.
    assert calibration.served(point.answers, 2 * point.rate) < point.rate


def test_it_comes_to_what_single_requests_come_to(calibration: Calibration) -> None:
    load = load_of(calibration, 1.2, 1.7, 2.2, 2.6, 2.2, 1.6, 1.2, seconds=150.0)
    found = {}
    for level in ("requests", "fluid"):
        scenario = Scenario(load=load, pools=[POOL], level=level, every=5.0)
        found[level] = run_contender(Measured(scenario, {"p": calibration}), "hpa")
    requests, fluid = found["requests"], found["fluid"]
    assert fluid.in_time == pytest.approx(requests.in_time, abs=0.01)
    assert fluid.mean_replicas == pytest.approx(requests.mean_replicas, rel=0.15)
    assert fluid.requests == pytest.approx(requests.requests, rel=0.05)


def test_what_exceeds_the_replicas_waits_and_is_late_and_nothing_is_lost(calibration: Calibration) -> None:
    load = load_of(calibration, 1.0, 4.0, 0.5, 0.5)
    found = run_fluid("static", Static("p", 1), [POOL], [1], load, 1.0, {"p": calibration})
    assert found.requests == pytest.approx(load.curve.requests, rel=0.01)
    assert found.in_time < 0.5
    enough = run_fluid("static", Static("p", 6), [POOL], [6], load, 1.0, {"p": calibration})
    assert enough.in_time > 0.99


def test_controllers_see_the_rate_as_it_is_on_average(calibration: Calibration) -> None:
    load = load_of(calibration, 2.0, 2.0, 2.0)
    run = FluidRun(Static("p", 3), [POOL], [3], load, {"p": calibration}, every=1.0, seed=7)
    run.run()
    rates = [point.rate for point in run.rounds.points]
    assert sum(rates) / len(rates) == pytest.approx(load.curve.at(0.0), rel=0.05)
    assert len(set(rates)) > 100
