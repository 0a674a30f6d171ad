"""Test one coefficient of a linear model by a test that may be looked at after every observation.

Observations are normal with an unknown variance that is inversely proportional to their weights. The Bayes factor with
the right Haar prior on what is not tested is a martingale under the null hypothesis, whatever the variance is:
Lindon, Ham, Tingley and Bojinov, "Anytime-Valid Linear Models and Regression Adjusted Causal Inference in Randomized
Experiments" (2022), theorem 3.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import exp, log, sqrt
from typing import NamedTuple


class Fit(NamedTuple):
    """A coefficient: its estimate, the residuals' standard deviation at weight 1, the information on it, which is its
    regressor's weighted sum of squares without what the others explain, and the degrees of freedom.
    """

    estimate: float
    deviation: float
    information: float
    freedom: float

    @property
    def error(self) -> float:
        """The estimate's standard error, for one look."""
        return self.deviation / sqrt(self.information)

    def times(self, times: float, power: int = 1) -> "Fit":
        """Return what so many times as many observations that are like these would say; the information on the
        coefficient grows with that power of their number.
        """
        return self._replace(information=times**power * self.information, freedom=times * self.freedom)

    def log_evidence(self, null: float, spread: float) -> float:
        """Return the logarithm of the Bayes factor against the value `null`.

        `spread` is how far from it, in deviations, it is expected to be.
        """
        if self.deviation == 0.0:
            return 0.0
        rest = self._rest(spread)
        square = (self.estimate - null) ** 2 * self.information / self.deviation**2 / self.freedom
        return 0.5 * log(rest) + 0.5 * (self.freedom + 1) * (log(1.0 + square) - log(1.0 + rest * square))

    def margin(self, error: float, spread: float) -> float | None:
        """Return how far the true value may be from the estimate; it ever is farther with probability `error`.

        None: anything is possible.
        """
        rest = self._rest(spread)
        power = 2.0 / (self.freedom + 1) * (-log(error) - 0.5 * log(rest))
        if power + log(rest) >= 0.0:
            return None
        factor = exp(power)
        square = (factor - 1.0) / (1.0 - factor * rest)
        return sqrt(square * self.freedom / self.information) * self.deviation

    def _rest(self, spread: float) -> float:
        prior = 1.0 / spread**2
        return prior / (prior + self.information)


def fit(
    values: Sequence[float],
    weights: Sequence[float],
    tested: Sequence[float],
    others: Sequence[Sequence[float]],
    persistence: float = 0.0,
) -> Fit | None:
    """Fit `values` to the tested regressor and the others; None: there are too few, or the others say it all.

    `persistence` is a floor of the residuals' correlation from one to the next, for which the information is reduced as
    for an autoregressive process of order one.
    """
    freedom = len(values) - 1 - len(others)
    if freedom < 2:
        return None
    # By Gram and Schmidt: the others orthogonal to each other, then the tested one and the values to them.
    basis: list[list[float]] = []
    for column in others:
        clear = _without(column, basis, weights)
        if _product(clear, clear, weights) > 1e-9:
            basis.append(clear)
    regressor, rest = _without(tested, basis, weights), _without(values, basis, weights)
    information = _product(regressor, regressor, weights)
    if information < 1e-9:
        return None
    estimate = _product(regressor, rest, weights) / information
    residuals = [value - estimate * each for value, each in zip(rest, regressor, strict=True)]
    squares = _product(residuals, residuals, weights)
    correlation = _correlation(residuals, weights, persistence)
    information *= (1.0 - correlation) / (1.0 + correlation)
    return Fit(estimate, sqrt(squares / freedom), information, freedom)


def _correlation(residuals: Sequence[float], weights: Sequence[float], expected: float) -> float:
    """Estimate the correlation of neighbours, drawn towards what is expected as if it had been seen in ten."""
    scaled = [each * sqrt(weight) for each, weight in zip(residuals, weights, strict=True)]
    squares = sum([each * each for each in scaled])
    if squares <= 0.0:
        return expected
    seen = sum([a * b for a, b in pairwise(scaled)]) / squares
    count = len(scaled)
    return min(max((count * seen + 10.0 * expected) / (count + 10.0), 0.0), 0.95)


def _product(left: Sequence[float], right: Sequence[float], weights: Sequence[float]) -> float:
    return sum([a * b * weight for a, b, weight in zip(left, right, weights, strict=True)])


def _without(column: Sequence[float], basis: Sequence[Sequence[float]], weights: Sequence[float]) -> list[float]:
    """Take out of a column what the basis explains."""
    left = list(column)
    for each in basis:
        part = _product(left, each, weights) / _product(each, each, weights)
        left = [value - part * other for value, other in zip(left, each, strict=True)]
    return left
