"""Compute one snapshot's figures: a pure function of counts, the fleet, tenants and recent requests."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from gateway.admin.limit_operations import ScopeLimits
from gateway.admin.live.totals import Growth, Histogram, Place, Totals, merged
from gateway.admin.live.view import (
    Figures,
    Headline,
    Live,
    ModelLive,
    PoolLive,
    RecentError,
    RecentRoute,
    RolloutLive,
    ScalingLive,
    TenantLive,
    Times,
)
from gateway.fleets.listing import ReplicaView, ShapeView
from gateway.reshaping.reshape_registry import ShapesView
from gateway.rollouts.rollout_registry import ModelVersions
from gateway.scaling.status import FRESH_SECONDS, ScalingStatus
from observability.metrics.metric import NOTHING, OTHER
from observability.outcome import FAILED, Outcome
from protos.types import Role

MOST_TENANTS: Final = 50
MOST_ERRORS: Final = 64
MOST_ROUTES: Final = 32

#: Labels of tenants without a series of their own, and of requests without a tenant.
NO_TENANTS: Final = frozenset(("", NOTHING, OTHER))
#: Kinds of tokens of prompts and answers.
_ASKED: Final = frozenset(("input", "cached"))
_ANSWERED: Final = frozenset(("output", "reasoning"))
_FAILED: Final = frozenset(outcome.value for outcome in FAILED)
_R = TypeVar("_R", RecentError, RecentRoute)


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """A pool as it is configured."""

    model: str
    name: str
    shape: ShapeView
    role: Role


@dataclass(frozen=True, slots=True)
class SnapshotInputs:
    """The inputs of one snapshot. `growth`, `tiers` and `scopes` are None where they are not known.

    `tiers` has every tenant; `scopes` those that were asked for.
    """

    time: float
    totals: Totals
    growth: Growth | None
    pools: Sequence[PoolFacts]
    replicas: Sequence[ReplicaView]
    tiers: Mapping[str, str | None] | None
    scopes: Mapping[str, list[ScopeLimits]] | None
    errors: Sequence[RecentError]
    routes: Sequence[RecentRoute]
    problems: Sequence[str]
    scaling: ScalingLive | None = None
    rollouts: Sequence[RolloutLive] | None = None
    shapes: ShapesView | None = None


def snapshot(inputs: SnapshotInputs) -> Live:
    """Compute what viewers get."""
    shown = busiest(inputs.totals, inputs.growth, inputs.tiers or {})
    known = _tenant_names(inputs.totals, inputs.tiers or {})
    return Live(
        time=inputs.time,
        seconds=round(inputs.growth.seconds, 1) if inputs.growth else 0.0,
        problems=list(inputs.problems),
        headline=_headline(inputs.totals, inputs.growth),
        models=_models(inputs),
        tenants=_tenants(inputs, shown),
        tenants_left_out=len(known) - len(shown),
        errors=_grouped(_newest(inputs.errors, len(inputs.errors)))[:MOST_ERRORS],
        routes=_newest(inputs.routes, MOST_ROUTES),
        scaling=inputs.scaling,
        rollouts=inputs.rollouts,
        shapes=inputs.shapes,
    )


def scaling_live(now: float, status: ScalingStatus | None) -> ScalingLive:
    """Take of a status what is shown; `now` is the store's time."""
    if status is None:
        return ScalingLive(at=None, fresh=False, models=[])
    models = [msgspec.structs.replace(model, decisions=model.decisions[-1:]) for model in status.models]
    return ScalingLive(at=status.at, fresh=now - status.at <= FRESH_SECONDS, models=models)


def rollouts_live(models: Sequence[ModelVersions]) -> list[RolloutLive]:
    """Take of models that go by version what is shown."""
    return [
        RolloutLive(versions=one, shares=() if one.rollout is None else one.rollout.rollout.settings.shares)
        for one in models
    ]


def busiest(totals: Totals, growth: Growth | None, known: Iterable[str]) -> list[str]:
    """Choose the tenants to show: most requests now, then most so far, then by name."""
    now = _by_tenant(growth.requests) if growth else {}
    ever = _by_tenant(totals.requests)
    names = _tenant_names(totals, known)
    return sorted(names, key=lambda name: (-now.get(name, 0.0), -ever.get(name, 0.0), name))[:MOST_TENANTS]


def _tenant_names(totals: Totals, known: Iterable[str]) -> set[str]:
    return ({tenant for _, tenant, _ in totals.requests} | set(known)) - NO_TENANTS


def _headline(totals: Totals, growth: Growth | None) -> Headline:
    in_flight = None if totals.in_flight is None else round(totals.in_flight)
    queued = round(sum(totals.queued.values())) if totals.in_flight is not None else None
    if growth is None:
        return Headline(in_flight=in_flight, queued=queued)
    ended: dict[str, float] = {}
    for (_, _, outcome), count in growth.requests.items():
        ended[outcome] = ended.get(outcome, 0.0) + count
    of_all = _figures(growth, None, None)
    return Headline(
        requests_per_second=_rate(sum(ended.values()), growth),
        tokens_per_second=of_all.tokens_per_second,
        ttft=of_all.ttft,
        itl=of_all.itl,
        request=of_all.request,
        prompt_tokens_per_second=_rate(
            sum(count for (_, _, kind), count in growth.tokens.items() if kind in _ASKED), growth
        ),
        errors_per_second=_rate(sum(count for outcome, count in ended.items() if outcome in _FAILED), growth),
        outcomes={
            outcome: _rate(count, growth) for outcome, count in sorted(ended.items()) if outcome != Outcome.OK.value
        },
        in_flight=in_flight,
        queued=queued,
    )


def _figures(growth: Growth | None, model: str | None, pool: str | None) -> Figures:
    """Compute the figures of a pool, a model or everything. Pools have no token counts."""
    if growth is None:
        return Figures()

    def included(place: Place) -> bool:
        return model in (None, place[0]) and pool in (None, place[1])

    def times(of: Mapping[Place, Histogram]) -> Times | None:
        # A request refused at once says nothing about latency.
        answered = [histogram for place, histogram in of.items() if included(place) and place[1] != NOTHING]
        return _times(merged(answered))

    ended = sum(histogram.total for place, histogram in growth.request_seconds.items() if included(place))
    if pool is None:
        ended = sum(count for (name, _, _), count in growth.requests.items() if model in (None, name))
    answered = sum(c for (name, _, kind), c in growth.tokens.items() if kind in _ANSWERED and model in (None, name))
    return Figures(
        requests_per_second=_rate(ended, growth),
        tokens_per_second=None if pool is not None else _rate(answered, growth),
        ttft=times(growth.first_token_seconds),
        itl=times(growth.inter_token_seconds),
        request=times(growth.request_seconds),
    )


def _times(histogram: Histogram | None) -> Times | None:
    if histogram is None:
        return None
    p50, p95, p99 = (histogram.quantile(share) for share in (0.5, 0.95, 0.99))
    if p50 is None or p95 is None or p99 is None:
        return None
    return Times(count=round(histogram.total), p50=_short(p50), p95=_short(p95), p99=_short(p99))


def _models(inputs: SnapshotInputs) -> list[ModelLive]:
    queued = inputs.totals.queued
    replicas: dict[Place, list[ReplicaView]] = {}
    for row in inputs.replicas:
        replicas.setdefault((row.model, row.pool), []).append(row)
    found = []
    for model in dict.fromkeys(pool.model for pool in inputs.pools):
        pools = [
            PoolLive(
                name=pool.name,
                shape=pool.shape,
                role=pool.role,
                figures=_figures(inputs.growth, model, pool.name),
                replicas=replicas.get((model, pool.name), []),
            )
            for pool in inputs.pools
            if pool.model == model
        ]
        waiting = round(queued.get(model, 0.0)) if inputs.totals.in_flight is not None else None
        found.append(ModelLive(name=model, queued=waiting, figures=_figures(inputs.growth, model, None), pools=pools))
    return found


def _tenants(inputs: SnapshotInputs, shown: Sequence[str]) -> list[TenantLive]:
    growth = inputs.growth
    ever = _by_tenant(inputs.totals.requests)
    requests = _by_tenant(growth.requests) if growth else {}
    refused = _by_tenant(growth.requests, {Outcome.LIMITED.value}) if growth else {}
    failed = _by_tenant(growth.requests, _FAILED) if growth else {}
    tokens = _by_tenant(growth.tokens, {*_ASKED, *_ANSWERED}) if growth else {}

    def rate(of: Mapping[str, float], name: str) -> float | None:
        return _rate(of.get(name, 0.0), growth) if growth else None

    return [
        TenantLive(
            name=name,
            tier=(inputs.tiers or {}).get(name),
            requests_per_second=rate(requests, name),
            tokens_per_second=rate(tokens, name),
            refused_per_second=rate(refused, name),
            failed_per_second=rate(failed, name),
            requests=round(ever.get(name, 0.0)),
            scopes=None if inputs.scopes is None else inputs.scopes.get(name, []),
        )
        for name in shown
    ]


def _by_tenant(counts: Mapping[tuple[str, str, str], float], last: Iterable[str] | None = None) -> dict[str, float]:
    """Sum by tenant, over all series or those whose last label is one of these."""
    wanted = None if last is None else frozenset(last)
    sums: dict[str, float] = {}
    for (_, tenant, name), count in counts.items():
        if wanted is None or name in wanted:
            sums[tenant] = sums.get(tenant, 0.0) + count
    return sums


def _newest(found: Sequence[_R], most: int) -> list[_R]:
    return sorted(found, key=lambda one: one.time, reverse=True)[:most]


def _grouped(errors: Sequence[RecentError]) -> list[RecentError]:
    """Keep the first of each kind of failure with the number of the others: a flood of refusals hides nothing else."""
    found: dict[tuple[str, ...], list[RecentError]] = {}
    for error in errors:
        cause = (error.outcome, error.code, error.detail, error.tenant, error.model, error.pool, error.replica)
        found.setdefault(cause, []).append(error)
    return [msgspec.structs.replace(group[0], times=len(group)) for group in found.values()]


def _rate(count: float, growth: Growth) -> float:
    return _short(count / growth.seconds) if growth.seconds > 0 else 0.0


def _short(value: float) -> float:
    """Round to four significant digits, which saves two thirds of the bytes."""
    return float(f"{value:.4g}")
