"""Make the published status of what a controller knows. Pure."""

from collections.abc import Mapping, Sequence
from statistics import median

from gateway.scaling.facts.pool_facts import PoolFacts, step_of
from gateway.scaling.intents import Intent
from gateway.scaling.launcher_calls import LauncherCalls
from gateway.scaling.leasing.lease import Holder
from gateway.scaling.model_controller import ModelController, PoolCounts
from gateway.scaling.reconcile import Failure
from gateway.scaling.settings import ScaledPool, shape_name
from gateway.scaling.status import (
    ControllerStatus,
    DemandStatus,
    ForecastStatus,
    ModelStatus,
    PoolStatus,
    ReplicaProgress,
    ScalingStatus,
)
from replicas.controller.snapshot import Demand, Forecast
from replicas.launchers.launcher import LaunchStep


class StepTimes:
    """When each replica was first seen in its step."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[LaunchStep, float]] = {}

    def note(self, steps: Mapping[str, LaunchStep], now: float) -> None:
        """Take the steps of all replicas that there are now."""
        self._since = {
            id_: before if (before := self._since.get(id_, (step, now)))[0] is step else (step, now)
            for id_, step in steps.items()
        }

    def since(self, id_: str, now: float) -> float:
        """When the replica came to its step, as far as that was seen."""
        return self._since[id_][1] if id_ in self._since else now


def status_of(
    now: float,
    holder: Holder,
    models: Sequence[ModelController],
    facts: Mapping[tuple[str, str], PoolFacts],
    calls: Mapping[str, LauncherCalls],
    times: StepTimes,
    warnings: Sequence[str],
) -> ScalingStatus:
    """Return the status. `facts` are by model and pool, `calls` by launcher; `warnings` concern all models."""
    return ScalingStatus(
        at=now,
        controller=ControllerStatus(name=holder.name, since=holder.since, token=holder.token),
        models=[_model(one, facts, calls, times, now, warnings) for one in models],
        heeds={one.model.name: one.holds.version for one in models if one.holds.version},
    )


def _model(
    one: ModelController,
    facts: Mapping[tuple[str, str], PoolFacts],
    calls: Mapping[str, LauncherCalls],
    times: StepTimes,
    now: float,
    warnings: Sequence[str],
) -> ModelStatus:
    decision = one.decision
    pools = [_pool(one, pool, facts[pool.place], calls[pool.launcher], times, now) for pool in one.model.pools]
    return ModelStatus(
        model=one.model.name,
        mode=one.model.mode,
        paused=one.override.paused,
        pools=pools,
        fixed={name: seen.ready for name, seen in one.fixed.items()},
        cost_per_hour=_cost(one),
        wanted_cost_per_hour=decision.cost if decision is not None else None,
        budget_per_hour=one.model.scaling.budget,
        demand=_demand(one.demand),
        forecast=_forecast(one.forecast),
        decisions=list(one.decisions),
        decided=dict(one.decided),
        warnings=[*warnings, *one.warnings, *(decision.warnings if decision is not None else ())],
    )


def _pool(
    one: ModelController, pool: ScaledPool, facts: PoolFacts, calls: LauncherCalls, times: StepTimes, now: float
) -> PoolStatus:
    counts = one.counts[pool.name]
    decided = one.decision.pools.get(pool.name) if one.decision is not None else None

    def progress(intent: Intent, step: LaunchStep) -> ReplicaProgress:
        return ReplicaProgress(
            id=intent.id,
            step=step.value,
            since=intent.made,
            step_since=times.since(intent.id, now),
            spot=intent.spot,
            address=intent.address,
        )

    return PoolStatus(
        name=pool.name,
        launcher=pool.launcher,
        shape=shape_name(pool.scaling.shape),
        min=pool.scaling.min,
        max=pool.scaling.max,
        wanted=decided.wanted if decided is not None else 0,
        needed=decided.needed if decided is not None else 0,
        ready=len(counts.ready),
        starting=[progress(intent, step) for intent, step in counts.starting],
        stopping=[progress(intent, LaunchStep.STOPPING) for intent in counts.stopping],
        failed=[_failure(failure) for failure in one.pools[pool.name].failures],
        spot_wanted=decided.spot if decided is not None else 0,
        spot_ready=sum(intent.spot for intent in counts.ready),
        pinned=one.override.pinned.get(pool.name),
        price_per_hour=pool.scaling.price,
        spot_price_per_hour=one.spot_price(pool),
        startup_seconds=one.learned[pool.name].startup_seconds,
        start_seconds=_start_seconds(counts.ready, facts),
        reason=decided.reason if decided is not None else "",
        launcher_errors=calls.errors + one.pools[pool.name].failed,
        problem=calls.problem(pool.place) or one.pools[pool.name].unavailable(now),
    )


def _start_seconds(ready: Sequence[Intent], facts: PoolFacts) -> dict[str, float]:
    """The median of what each step took, over the replicas that say it."""
    found: dict[str, list[float]] = {}
    for intent in ready:
        known = facts.announced.get(intent.id)
        for step, seconds in (known.start_seconds if known is not None else {}).items():
            found.setdefault(step, []).append(seconds)
    return {step: median(seconds) for step, seconds in found.items()}


def _failure(failure: Failure) -> ReplicaProgress:
    intent = failure.intent
    return ReplicaProgress(
        id=intent.id,
        step=LaunchStep.FAILED.value,
        since=intent.made,
        step_since=failure.at,
        spot=intent.spot,
        address=intent.address,
        problem=failure.problem,
    )


def _cost(one: ModelController) -> float | None:
    """US dollars an hour of all that exists; None where one of its prices is not known."""
    total = 0.0
    for pool in one.model.pools:
        for intent in _all_of(one.counts[pool.name]):
            price = one.spot_price(pool) if intent.spot else pool.scaling.price
            if price is None:
                return None
            total += price
    return total


def _all_of(counts: PoolCounts) -> list[Intent]:
    return [*counts.ready, *(intent for intent, _ in counts.starting), *counts.stopping]


def _demand(demand: Demand | None) -> DemandStatus | None:
    if demand is None:
        return None
    return DemandStatus(**{name: getattr(demand, name) for name in DemandStatus.__struct_fields__})


def _forecast(forecast: Forecast | None) -> ForecastStatus | None:
    if forecast is None:
        return None
    return ForecastStatus(**{name: getattr(forecast, name) for name in ForecastStatus.__struct_fields__})


def steps_of(intents: Sequence[Intent], facts: Mapping[tuple[str, str], PoolFacts]) -> dict[str, LaunchStep]:
    """Return how far each replica is."""
    found = {}
    for intent in intents:
        known = facts.get(intent.place)
        if known is not None:
            found[intent.id] = step_of(intent, known)
    return found
