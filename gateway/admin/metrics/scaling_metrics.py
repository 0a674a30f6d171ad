"""The metrics of pools that scale, from what their controller has told last."""

from collections.abc import Iterator
from typing import Final

from gateway.scaling.status import FRESH_SECONDS, ForecastStatus, ModelStatus, PoolStatus, ScalingStatus
from observability.exposition import Family
from observability.metrics import controller_declarations as declared
from observability.metrics.metric import Metric
from observability.metrics.names import label

#: The steps of a start, which have series without replicas too.
STARTING: Final = ("allocate", "process", "load", "warm_up")
#: Kinds of decisions, the same.
CHANGES: Final = ("up", "down", "same")
#: Minutes ahead of which the forecast is shown.
AHEAD: Final = (5, 15)

_Value = tuple[Metric, float | None, tuple[str, ...]]


def scaling_families(now: float, status: ScalingStatus | None) -> list[Family]:
    """Make the metrics at `now` on the store's clock; of an old status, or none, only that there is no controller."""
    fresh = status is not None and now - status.at <= FRESH_SECONDS
    values: list[_Value] = [(declared.SCALING_CONTROLLER_UP, float(fresh), ())]
    if status is not None and fresh:
        values.append((declared.SCALING_CONTROLLER_SINCE, status.controller.since, ()))
        for model in status.models:
            values += _model(now, model)
    found: dict[str, Family] = {}
    for metric, value, labels in values:
        if value is not None:
            family = found.setdefault(metric.name, Family(metric.name, metric.kind, metric.help))
            family.add(value, **dict(zip(metric.labels, map(label, labels), strict=True)))
    return list(found.values())


def _model(now: float, model: ModelStatus) -> Iterator[_Value]:
    of = (model.model,)
    yield declared.SCALING_ACTS, float(model.mode == "act" and not model.paused), of
    yield declared.SCALING_COST, model.cost_per_hour, of
    yield declared.SCALING_WANTED_COST, model.wanted_cost_per_hour, of
    yield declared.SCALING_BUDGET, model.budget_per_hour, of
    for change in CHANGES:
        yield declared.SCALING_DECISIONS, model.decided.get(change, 0), (*of, change)
    demand = model.demand
    if demand is not None:
        yield declared.SCALING_DEMAND, demand.requests_per_second, of
        yield declared.SCALING_SLO, demand.ttft_ratio, (*of, "ttft")
        yield declared.SCALING_SLO, demand.tpot_ratio, (*of, "tpot")
    if model.forecast is not None:
        yield from _forecast(now, model.forecast, model.model)
    for pool in model.pools:
        yield from _pool(pool, (model.model, pool.name))


def _forecast(now: float, forecast: ForecastStatus, model: str) -> Iterator[_Value]:
    """Yield the forecast requests per second some minutes from now, as far as the forecast reaches."""
    for minutes in AHEAD:
        place = int((now + 60.0 * minutes - forecast.made) // forecast.step) if forecast.step > 0 else -1
        for bound, values in (("mean", forecast.mean), ("upper", forecast.upper)):
            if 0 <= place < len(values):
                yield declared.SCALING_FORECAST, values[place], (model, f"{minutes}m", bound)


def _pool(pool: PoolStatus, of: tuple[str, str]) -> Iterator[_Value]:
    yield declared.SCALING_WANTED, pool.wanted, of
    yield declared.SCALING_NEEDED, pool.needed, of
    yield declared.SCALING_READY, pool.ready, of
    yield declared.SCALING_STOPPING, len(pool.stopping), of
    yield declared.SCALING_MIN, pool.min, of
    yield declared.SCALING_MAX, pool.max, of
    yield declared.SCALING_SPOT, pool.spot_ready, of
    yield declared.SCALING_STARTUP, pool.startup_seconds, of
    for step, seconds in pool.start_seconds.items():
        yield declared.SCALING_START_STEP, seconds, (*of, step)
    yield declared.SCALING_LAUNCHER_FAILING, float(bool(pool.problem)), of
    yield declared.SCALING_LAUNCHER_ERRORS, pool.launcher_errors, of
    steps = [one.step for one in pool.starting]
    for step in dict.fromkeys((*STARTING, *steps)):
        yield declared.SCALING_STARTING, steps.count(step), (*of, step)
