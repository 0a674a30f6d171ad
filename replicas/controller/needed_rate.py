"""The rate that replicas must be able to serve by the time that those started now are ready: Algorithm 4's maximum."""

from collections.abc import Sequence
from math import isfinite

import msgspec

from replicas.controller.rate_history import RateSample, growth
from replicas.controller.snapshot import Forecast

#: What was expected of now may be off by this share before a forecast counts as refuted.
REFUTED = 0.3
#: Share of its errors that a forecast's upper bound covers.
COVERED = 0.9
#: Seconds in which what waits is worked off, at least.
LEAST_DRAIN = 60.0


class NeededNow(msgspec.Struct, frozen=True, kw_only=True):
    """The needed rate in requests per second, its parts, and what decided it, as a sentence."""

    rate: float
    steady: float
    growth: float
    backlog: float
    forecast: float
    reason: str
    warnings: Sequence[str] = ()


def needed_rate(
    history: Sequence[RateSample],
    now: RateSample,
    *,
    backlog: float,
    startup: float,
    headroom: float,
    forecast: Forecast | None,
) -> NeededNow:
    """Return what is needed `startup` seconds from now on, while `backlog` requests more than can run are there.

    `headroom` is the share of growths, and of a forecast's errors, that is prepared for.
    """
    steady = now.mean
    grown = growth(history, now, startup, headroom)
    drain = backlog / max(startup, LEAST_DRAIN)
    expected, warnings = 0.0, []
    if forecast is not None:
        problem = _refuted(forecast, now.at, steady)
        if problem:
            warnings.append(problem)
        else:
            # The upper bound covers nine errors in ten; half of them are covered without any.
            part = max(0.0, (headroom - 0.5) / (COVERED - 0.5))
            bounds = [mean + part * (upper - mean) for mean, upper in zip(forecast.mean, forecast.upper, strict=True)]
            expected = _highest(bounds, forecast, now.at, now.at + startup)
    reactive = steady + grown + drain
    rate = max(reactive, expected)
    if expected > reactive:
        method = forecast.method if forecast else ""
        reason = f"The forecast ({method}) expects up to {expected:.2f} requests/s within {startup:.0f} s."
    elif drain > 0.1 * reactive:
        reason = f"{backlog:.0f} requests wait beyond what runs, and {steady:.2f} requests/s come."
    elif grown > 0:
        reason = (
            f"{steady:.2f} requests/s come, which lately grew by {grown:.2f} within a start-up time of {startup:.0f} s."
        )
    else:
        reason = f"{steady:.2f} requests/s come."
    return NeededNow(
        rate=rate, steady=steady, growth=grown, backlog=drain, forecast=expected, reason=reason, warnings=warnings
    )


def lasting_need(forecast: Forecast | None, now: float, seconds: float) -> float | None:
    """Return the highest expected rate of the next `seconds`; None where no forecast reaches so far."""
    if forecast is None or forecast.step <= 0 or forecast.made + forecast.step * len(forecast.mean) < now + seconds:
        return None
    return _highest(forecast.mean, forecast, now, now + seconds)


def _refuted(forecast: Forecast, now: float, steady: float) -> str:
    """Say why a forecast is not used; empty: it is."""
    if not (
        isfinite(forecast.step) and forecast.step > 0 and forecast.mean and len(forecast.mean) == len(forecast.upper)
    ):
        return "The forecast has no values, so it is not used."
    if not all(isfinite(value) and value >= 0 for values in (forecast.mean, forecast.upper) for value in values):
        return "The forecast has values that are no rates, so it is not used."
    if not forecast.made - forecast.step <= now < forecast.made + forecast.step * len(forecast.mean):
        return "The forecast is not of now, so it is not used."
    place = min(max(int((now - forecast.made) // forecast.step), 0), len(forecast.mean) - 1)
    mean, upper = forecast.mean[place], forecast.upper[place]
    wide = max(upper - mean, REFUTED * mean, 1.0)
    if not mean - 2 * wide <= steady <= mean + 2 * wide:
        return f"The forecast said {mean:.2f} requests/s for now, and {steady:.2f} come, so it is not used."
    return ""


def _highest(values: Sequence[float], forecast: Forecast, start: float, end: float) -> float:
    first = max(int((start - forecast.made) // forecast.step), 0)
    last = int((end - forecast.made) // forecast.step)
    return max(values[first : last + 1], default=0.0)
