from math import log
from random import Random

import pytest

from routing.rollouts.verdicts.regression import fit


def test_it_takes_out_what_others_explain() -> None:
    loads = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    values = [0.5 + 0.3 * load + noise for load, noise in zip(loads, [0.01, -0.01, 0.0, 0.01, -0.01, 0.0], strict=True)]
    found = fit(values, [1.0] * 6, [1.0] * 6, [loads])
    assert found is not None
    assert found.estimate == pytest.approx(0.5, abs=0.02)
    # The residuals are tiny, so that true values may be many deviations away.
    margin = found.margin(0.05, 50.0)
    assert margin is not None
    # At the interval's end the evidence is just enough.
    assert found.log_evidence(found.estimate + margin, 50.0) == pytest.approx(-log(0.05))


def test_what_cannot_be_told_apart_has_no_interval() -> None:
    assert fit([1.0, 2.0], [1.0, 1.0], [1.0, 1.0], []) is None
    assert fit([1.0, 2.0, 3.0, 4.0], [1.0] * 4, [1.0] * 4, [[2.0] * 4]) is None
    few = fit([1.0, 2.0, 3.0], [1.0] * 3, [1.0] * 3, [])
    assert few is not None
    assert few.margin(1e-9, 0.3) is None


def test_it_ever_misses_as_often_as_allowed() -> None:
    """Forty looks, the variance unknown, the null hypothesis true: 120 runs."""
    random, error, missed = Random(5), 0.05, 0
    for _ in range(120):
        values: list[float] = []
        for _ in range(40):
            values.append(random.gauss(0.2, 0.7))
            found = fit(values, [1.0] * len(values), [1.0] * len(values), [])
            if found is not None and found.log_evidence(0.2, 0.3) >= -log(error):
                missed += 1
                break
    assert missed <= 120 * error
