from math import exp, log
from random import Random

from routing.rollouts.verdicts.blocks import Moment, blocks, moments_of
from routing.rollouts.verdicts.latencies import _SPREAD, compare_sizes, fit_blocks
from tests.routing.rollouts.verdicts.versions import measures


def some_moments() -> list[Moment]:
    random = Random(3)
    return moments_of(*(measures(random, slices=12, requests=30) for _ in range(2)))


def test_an_interval_beyond_all_bounds_is_none() -> None:
    """The interval is finite from some error on, and just there it reaches as far as numbers do."""
    moments = some_moments()
    found = blocks(moments, "ttft")
    line = fit_blocks(found, [1.0] * len(found), ())
    assert line is not None
    barely = exp(0.5 * line.freedom * log(line._rest(_SPREAD)))
    compared = {}
    for error in (barely * (1.0 - 1e-9), barely * (1.0 + 1e-13), barely * 1.5):
        one = compare_sizes(moments, "ttft", None, error, 0.1)
        assert one is not None
        compared[error] = (one.standing, one.low, one.high)
    nothing, far, near = compared.values()
    assert nothing == far == ("as_good", 0.0, None)
    assert near[1] > 0.0
    assert near[2] is not None
