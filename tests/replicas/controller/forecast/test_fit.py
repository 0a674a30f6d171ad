import random
from collections.abc import Callable, Sequence
from math import cos, inf, nan, pi

import pytest

from replicas.controller.forecast.fit import AHEAD, fit_forecast
from replicas.controller.forecast.methods import METHODS
from replicas.controller.forecast.rate_bins import BIN_SECONDS, RateBins, with_rate

DAY = 86_400.0


def history(rate: Callable[[float], float | None], days: float) -> RateBins:
    bins = RateBins()
    for place in range(int(days * DAY / BIN_SECONDS)):
        at = place * BIN_SECONDS
        found = rate(at)
        if found is not None:
            bins = with_rate(bins, at, found)
    return bins


def daily(at: float) -> float:
    return 50.0 - 40.0 * cos(2 * pi * at / DAY)


def test_a_daily_load_is_foreseen_by_earlier_days() -> None:
    rng = random.Random(3)
    bins = history(
        lambda at: max(0.0, daily(at) + (60.0 if 9 <= at % DAY / 3600 < 10 else 0.0) + rng.gauss(0, 2)), 4.37
    )
    found = fit_forecast(bins, bins.at)
    assert found.forecast is not None
    assert "days" in found.forecast.method or "day" in found.forecast.method
    assert found.errors[found.forecast.method] < 0.7 * found.errors["last rate"]
    # It is five to nine: the hour's sixty more are expected.
    assert max(found.forecast.mean) > daily(bins.at) + 40
    assert all(upper >= mean for mean, upper in zip(found.forecast.mean, found.forecast.upper, strict=True))


def test_a_load_without_seasons_is_foreseen_by_its_level() -> None:
    rng = random.Random(4)
    found = fit_forecast(bins := history(lambda at: rng.gauss(30, 3), 2.0), bins.at)
    assert found.forecast is not None
    assert found.forecast.method in ("smoothed", "strongly smoothed")
    assert found.forecast.mean[0] == pytest.approx(30, abs=4)
    assert found.forecast.upper[0] == pytest.approx(34, abs=3)


def test_holes_are_no_rates() -> None:
    rng = random.Random(5)
    bins = history(lambda at: None if 0.4 < at % DAY / DAY < 0.5 else daily(at) + rng.gauss(0, 1), 3.9)
    found = fit_forecast(bins, bins.at)
    assert found.forecast is not None
    assert found.forecast.mean[0] == pytest.approx(daily(bins.at), abs=8)


@pytest.mark.parametrize(
    ("method", "why"),
    [
        (lambda rates, ahead: [nan] * ahead, "no number"),
        (lambda rates, ahead: [inf] * ahead, "no number"),
        (lambda rates, ahead: [-1.0] * ahead, "negative"),
        (lambda rates, ahead: [30_000.0] * ahead, "never more"),
        (lambda rates, ahead: [1.0], "no number"),
        (lambda rates, ahead: None, "too little history"),
        (lambda rates, ahead: [1 / 0] * ahead, "failed"),
    ],
)
def test_nonsense_is_dropped_by_name(
    method: Callable[[Sequence[float | None], int], list[float] | None], why: str
) -> None:
    bins = history(lambda at: 30.0, 1.0)
    found = fit_forecast(bins, bins.at, {"bad": method, "last rate": METHODS["last rate"]})
    assert why in found.dropped["bad"]
    assert found.forecast is not None
    assert found.forecast.method == "last rate"
    assert fit_forecast(bins, bins.at, {"bad": method}).forecast is None


def test_no_forecast_of_nothing_or_of_long_ago() -> None:
    for bins, now in ((RateBins(), 0.0), (history(lambda at: 1.0, 0.05), 4000.0), (history(lambda at: 1.0, 1.0), 9e9)):
        found = fit_forecast(bins, now)
        assert found.forecast is None
        assert set(found.dropped) == set(METHODS)


def test_it_reaches_a_quarter_of_an_hour_ahead() -> None:
    bins = history(lambda at: 5.0, 1.0)
    found = fit_forecast(bins, bins.at).forecast
    assert found is not None
    assert len(found.mean) == AHEAD
    assert found.made + found.step * AHEAD >= bins.at + 900.0
