"""Read the counts that workers have written, in the form that snapshots are made from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from gateway.admin.live.totals import Histogram, Place, Totals
from gateway.admin.live.view import RecentError, RecentRoute
from gateway.fleets.reports import Report
from observability.exposition import Family
from observability.metrics import declarations as metrics
from observability.metrics import merge
from observability.metrics.metric import NOTHING, Metric
from routing.health.replica_status import ReplicaStatus, State

R = TypeVar("R", bound=msgspec.Struct)

#: Characters shown of texts from others, such as an upstream's error.
MOST_CHARACTERS: Final = 512


@dataclass(frozen=True, slots=True)
class WorkerCounts:
    """All counts and gauges of the workers. `replicas` have no reasons and addresses."""

    totals: Totals = field(default_factory=lambda: Totals(at=0.0))
    replicas: Report = field(default_factory=dict)
    errors: tuple[RecentError, ...] = ()
    routes: tuple[RecentRoute, ...] = ()


def read_counts(folder: Path, at: float) -> WorkerCounts:
    """Read the files of a metrics folder at the moment `at`. Blocks: call it in a thread.

    Raises:
        OSError, ValueError: The files cannot be read.
    """
    return worker_counts(merge.read(folder), at)


def worker_counts(merged: merge.Merged, at: float) -> WorkerCounts:
    """Convert merged metrics at the moment `at`."""
    families = {family.name: family for family in merged.families()}

    def family_of(metric: Metric) -> Family:
        return families.get(metric.name) or Family(metric.name, metric.kind, metric.help)

    in_flight = [value for _, value in family_of(metrics.IN_FLIGHT).samples]
    totals = Totals(
        at=at,
        started=merged.started,
        requests=_sums(family_of(metrics.REQUESTS), ("model", "tenant", "outcome")),
        tokens=_sums(family_of(metrics.TOKENS), ("model", "tenant", "kind")),
        request_seconds=_histograms(family_of(metrics.REQUEST_SECONDS)),
        first_token_seconds=_histograms(family_of(metrics.FIRST_TOKEN_SECONDS)),
        inter_token_seconds=_histograms(family_of(metrics.INTER_TOKEN_SECONDS)),
        in_flight=sum(in_flight) if in_flight else None,
        queued={labels["model"]: value for labels, value in family_of(metrics.QUEUE_DEPTH).samples},
    )
    return WorkerCounts(
        totals=totals,
        replicas=_replicas(families),
        errors=tuple(_recent(merged.recent, "failed", RecentError)),
        routes=tuple(_recent(merged.recent, "routed", RecentRoute)),
    )


def _sums(family: Family, names: tuple[str, str, str]) -> dict[tuple[str, str, str], float]:
    sums: dict[tuple[str, str, str], float] = {}
    first, second, third = names
    for labels, value in family.samples:
        series = (labels[first], labels[second], labels[third])
        sums[series] = sums.get(series, 0.0) + value
    return sums


def _histograms(family: Family) -> dict[Place, Histogram]:
    bounds = tuple(family.bounds)
    return {
        (labels["model"], labels["pool"]): Histogram(bounds, tuple(map(float, counts)))
        for labels, counts, _ in family.observed
    }


def _replicas(families: Mapping[str, Family]) -> Report:
    """Return the state of each replica from its gauges; replicas without a state are left out."""
    values: dict[tuple[str, str, str], dict[str, float]] = {}
    for metric in (
        *(metrics.REPLICA_RUNNING, metrics.REPLICA_WAITING, metrics.REPLICA_IN_FLIGHT, metrics.REPLICA_KV_USED),
        *(metrics.REPLICA_KV_TOTAL, metrics.REPLICA_SHARE, metrics.REPLICA_BREAKER, metrics.REPLICA_ACCURACY),
    ):
        for labels, value in families[metric.name].samples if metric.name in families else ():
            values.setdefault((labels["model"], labels["pool"], labels["replica"]), {})[metric.name] = value
    found: Report = {}
    family = families.get(metrics.REPLICA_STATE.name)
    for labels, value in family.samples if family else ():
        if value == 1 and labels["state"] in metrics.REPLICA_STATES:
            known = values.get((labels["model"], labels["pool"], labels["replica"]), {})
            found.setdefault(labels["model"], []).append(_status(labels, known))
    return found


def _status(labels: Mapping[str, str], values: Mapping[str, float]) -> ReplicaStatus:
    def count(metric: Metric) -> int:
        return int(values.get(metric.name, 0.0))

    return ReplicaStatus(
        id=labels["replica"],
        pool=labels["pool"],
        state=State(labels["state"]),
        reason="",
        running=count(metrics.REPLICA_RUNNING),
        waiting=count(metrics.REPLICA_WAITING),
        kv_blocks_used=count(metrics.REPLICA_KV_USED),
        kv_blocks_total=count(metrics.REPLICA_KV_TOTAL),
        in_flight=count(metrics.REPLICA_IN_FLIGHT),
        share=values.get(metrics.REPLICA_SHARE.name, 0.0),
        breaker_seconds=values.get(metrics.REPLICA_BREAKER.name, 0.0),
        accuracy=values.get(metrics.REPLICA_ACCURACY.name),
    )


def _recent(entries: Iterable[Mapping[str, Any]], kind: str, record: type[R]) -> Iterable[R]:
    """Decode the entries of a kind; entries written by another version of the program are left out."""
    names = record.__struct_fields__
    for entry in entries:
        if entry.get("kind") == kind:
            known = {name: _shown(entry[name]) for name in names if name in entry}
            try:
                yield msgspec.convert(known, record, strict=False)
            except msgspec.ValidationError:
                continue


def _shown(value: object) -> object:
    if not isinstance(value, str):
        return value
    return "" if value == NOTHING else value[:MOST_CHARACTERS]
