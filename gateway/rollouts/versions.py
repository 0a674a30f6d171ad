"""The replicas of a model's versions, as all workers together say. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final

from gateway.config.models.settings import Model
from gateway.fleets.reports import Report
from gateway.scaling.status import ModelStatus
from routing.health.replica_status import ReplicaStatus, State
from routing.rollouts.facts import ReplicaFacts, VersionFacts

_SERVES: Final = (State.READY, State.RETURNING)


def version_facts(
    model: Model, version: str, reports: Sequence[Report], scaling: ModelStatus | None = None
) -> VersionFacts:
    """Return what is known of a version; `scaling` is what the controller of pools that scale tells of the model."""
    configured = {pool.name: pool.version for pool in model.pools}
    found: dict[str, list[ReplicaStatus]] = {}
    for report in reports:
        for status in report.get(model.name, ()):
            if (status.version or configured.get(status.pool, "")) == version:
                found.setdefault(status.id, []).append(status)
    pools = [pool for pool in model.pools if pool.version == version and pool.launcher is not None]
    return VersionFacts(
        replicas=[_replica(words) for _, words in sorted(found.items())],
        launched=bool(pools),
        most=sum(pool.scaling.max for pool in pools if pool.scaling is not None),
        problem=_problem([pool.name for pool in pools], scaling),
    )


def _replica(words: Sequence[ReplicaStatus]) -> ReplicaFacts:
    # One worker that reaches it is enough: another one may just have begun.
    ready = any(status.state in _SERVES for status in words)
    first = words[0]
    return ReplicaFacts(
        id=first.id,
        pool=first.pool,
        address=first.address,
        ready=ready,
        in_flight=sum(status.in_flight for status in words),
        reason="" if ready else next((status.reason for status in words if status.reason), first.state.value),
    )


def _problem(pools: Iterable[str], scaling: ModelStatus | None) -> str:
    if scaling is None:
        return ""
    told = [pool for pool in scaling.pools if pool.name in set(pools)]
    problems = [pool.problem for pool in told] + [one.problem for pool in told for one in pool.failed]
    paused = [f"scaling of {scaling.model} is paused"] if scaling.paused else []
    advice = [f"scaling of {scaling.model} is advice only"] if scaling.mode == "advise" else []
    return next((problem for problem in (*paused, *advice, *problems) if problem), "")
