"""What replicas do at steady rates, beside what the controller's model says of them."""

import pytest

from loadtest.simulation.scaling.calibration import calibrate, predicted
from loadtest.simulation.scaling.load_lengths import equal_lengths
from loadtest.simulation.scaling.virtual_pool import VirtualPool
from protos.types import Shape
from replicas.controller.scaling_settings import PoolScaling, Slo


@pytest.mark.parametrize("tp", [2, 4])
def test_the_controllers_model_says_about_what_the_simulator_serves_of_long_prompts(tp: int) -> None:
    pool = VirtualPool(scaling=PoolScaling(name="p", shape=Shape(tp=tp), min=1, max=9), profile="llama-3.1-70b")
    of, slo = equal_lengths(6000, 200), Slo()
    known = calibrate(pool, of, slo)
    assert [point.rate for point in known.points] == sorted(point.rate for point in known.points)
    assert predicted(pool, known, of, slo) == pytest.approx(known.goodput(slo.in_time).rate, rel=0.15)
