"""The rate that replicas must be able to serve by the time that those started now are ready: Algorithm 4's maximum."""

from collections.abc import Mapping, Sequence
from math import isfinite

import msgspec

from replicas.controller.fleet_capacity import FleetCapacity
from replicas.controller.forecast.rate_history import Outage, RateSample, growth, returning
from replicas.controller.pool_state import PoolState
from replicas.controller.scaling_settings import ModelScaling
from replicas.controller.snapshot import Forecast, Snapshot

#: What was expected of now may be off by this share before a forecast counts as refuted.
REFUTED = 0.3
#: Share of its errors that a forecast's upper bound covers.
COVERED = 0.9
#: Seconds in which what waits is worked off, at least.
LEAST_DRAIN = 60.0
#: Starts that end within so many seconds of each other count as one.
_TOGETHER = 10.0
#: Seconds for which a forecast must say that a need has gone.
AHEAD = 900.0


class NeededNow(msgspec.Struct, frozen=True, kw_only=True):
    """The needed rate in requests per second, its parts, and what decided it, as a sentence.

    `lasting_rate` is the rate without what the backlog adds, which is needed for no longer than that is there.
    `forecast` is the highest rate that is foreseen within a start-up time, `lasting` that of 15 minutes; None: nothing
    is.
    """

    rate: float
    lasting_rate: float
    steady: float
    growth: float
    backlog: float
    forecast: float | None
    lasting: float | None
    reason: str
    warnings: Sequence[str] = ()


def needed_rate(
    history: Sequence[RateSample],
    now: RateSample,
    *,
    outage: Outage | None,
    backlog: float,
    startup: float,
    headroom: float,
    forecast: Forecast | None,
) -> NeededNow:
    """Return what is needed `startup` seconds from now on, when `backlog` requests more than can run will be there.

    `headroom` is the share of growths that is prepared for. After an outage, what was there before it is.
    """
    steady = now.mean
    grown = growth(history, now, startup, headroom)
    drain = backlog / max(startup, LEAST_DRAIN)
    foreseen = lasting = None
    warnings = []
    if forecast is not None:
        problem = _refuted(forecast, now.at, steady)
        if problem:
            warnings.append(problem)
        else:
            # How much comes now is known better than any forecast tells: what it adds is by how much that will rise.
            foreseen = steady + _rise(forecast, now.at, startup)
            lasting = steady + _rise(forecast, now.at, AHEAD)
    before = outage.rate if outage is not None and returning(outage, now) else 0.0
    unqueued = max(steady + grown, before)
    reactive = unqueued + drain
    rate = max(reactive, foreseen or 0.0)
    if foreseen is not None and foreseen > reactive:
        method = forecast.method if forecast else ""
        reason = f"The forecast ({method}) expects up to {foreseen:.2f} requests/s within {startup:.0f} s."
    elif drain > 0.1 * reactive:
        reason = (
            f"{backlog:.0f} requests will wait beyond what runs in {startup:.0f} s, and {steady:.2f} requests/s come."
        )
    elif before > steady + grown:
        reason = f"{steady:.2f} requests/s come again, and {before:.2f} came before there were none."
    elif grown > 0:
        reason = (
            f"{steady:.2f} requests/s come (mean of {now.seconds:.0f} s), and lately grew by {grown:.2f} within a "
            f"start-up time, {startup:.0f} s."
        )
    else:
        reason = f"{steady:.2f} requests/s come (mean of {now.seconds:.0f} s)."
    return NeededNow(
        rate=rate,
        lasting_rate=max(unqueued, foreseen or 0.0),
        steady=steady,
        growth=grown,
        backlog=drain,
        forecast=foreseen,
        lasting=lasting,
        reason=reason,
        warnings=warnings,
    )


def _refuted(forecast: Forecast, now: float, steady: float) -> str:
    """Say why a forecast is not used; empty: it is."""
    steps = len(forecast.mean)
    if not (isfinite(forecast.step) and forecast.step > 0 and steps and steps == len(forecast.upper)):
        return "The forecast has no values, so it is not used."
    if not all(isfinite(value) and value >= 0 for values in (forecast.mean, forecast.upper) for value in values):
        return "The forecast has values that are no rates, so it is not used."
    if not forecast.made - forecast.step <= now < forecast.made + forecast.step * steps:
        return "The forecast is not of now, so it is not used."
    place = _place(forecast, now)
    mean, upper = forecast.mean[place], forecast.upper[place]
    wide = max(upper - mean, REFUTED * mean, 1.0)
    if abs(steady - mean) > 2 * wide:
        return f"The forecast said {mean:.2f} requests/s for now, and {steady:.2f} come, so it is not used."
    return ""


def _rise(forecast: Forecast, now: float, seconds: float) -> float:
    """Return by how much the forecast's mean rises within some seconds, 0 where it falls."""
    first, last = _place(forecast, now), _place(forecast, now + seconds)
    return max(forecast.mean[first : last + 1]) - forecast.mean[first]


def _place(forecast: Forecast, at: float) -> int:
    return min(max(int((at - forecast.made) // forecast.step), 0), len(forecast.mean) - 1)


def backlog_now(
    scaling: ModelScaling,
    snapshot: Snapshot,
    states: Mapping[str, PoolState],
    capacity: FleetCapacity,
    served: float,
) -> float:
    """Return the requests that are there beyond what those ready run, and begin within the target TTFT.

    `served` are the requests per second that those ready serve.
    """
    waiting = float(max(snapshot.demand.waiting, 0))
    for name, state in states.items():
        held = max(state.snapshot.running, 0) + max(state.snapshot.waiting, 0)
        if state.ready:
            waiting += max(0.0, held - state.ready * capacity.replicas[name].slots)
    return max(0.0, waiting - served * scaling.slo.first_token(snapshot.demand.prompt_tokens))


def expected_backlog(
    states: Mapping[str, PoolState], capacity: FleetCapacity, rate: float, backlog: float, seconds: float
) -> float:
    """Return what the backlog will be in some seconds, while `rate` requests/s come and what starts gets ready.

    So what a crowd leaves behind until then is known as soon as it begins to queue, and nothing is started again for
    what those on their way will work off. A backlog that is not there yet is none: rate and capacity are estimates.
    """
    if backlog <= 0:
        return 0.0
    counts = {name: float(state.ready) for name, state in states.items()}
    now = 0.0
    for at, name in sorted(_ends(states)):
        if at >= seconds:
            break
        if at - now >= _TOGETHER:
            backlog = max(0.0, backlog + (rate - capacity.rate(counts)) * (at - now))
            now = at
        counts[name] += 1
    return max(0.0, backlog + (rate - capacity.rate(counts)) * (seconds - now))


def _ends(states: Mapping[str, PoolState]) -> list[tuple[float, str]]:
    """Return in how many seconds each start ends that is counted on."""
    return [
        (max(0.0, state.startup - age), name)
        for name, state in states.items()
        for age in sorted(state.snapshot.starting)[: state.coming]
    ]
