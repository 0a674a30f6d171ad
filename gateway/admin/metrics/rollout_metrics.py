"""The metrics of rollouts, from what their controller has told last, and of the copies of their shadows."""

from collections.abc import Iterator, Sequence
from typing import get_args

from gateway.rollouts.rollout_records import Records, read_records
from gateway.rollouts.shadow.shadow_room import REFUSALS
from gateway.rollouts.shadow.shadow_sums import ShadowReport, read_report
from gateway.tenancy.tenants.transactions import Storage
from observability.exposition import Family
from observability.metrics import controller_declarations as declared
from observability.metrics.metric import Metric
from observability.metrics.names import label
from routing.rollouts.rollout import ENDED, ROLLBACKS, SERVING, Phase, Rollout, Totals
from routing.rollouts.verdicts.verdict import Kind

_Value = tuple[Metric, float, tuple[str, ...]]


async def read_rollouts(storage: Storage) -> tuple[Records, list[ShadowReport]]:
    """Read all that the metrics are made of. Raises StoreUnavailable."""
    records = await read_records(storage)
    shadowed = [name for name, rollout in records.rollouts.items() if rollout.settings.plan in ("shadow", "gates")]
    reports = [await read_report(storage, name) for name in shadowed]
    return records, [report for report in reports if report is not None]


def rollout_families(records: Records, shadows: Sequence[ShadowReport] = ()) -> list[Family]:
    """Make the metrics; rollouts stay as they are while there is no controller, and so do their series."""
    values: list[_Value] = [(declared.ROLLOUT_CONTROLLER_UP, float(bool(records.controller)), ())]
    if records.told is not None and records.controller:
        values.append((declared.ROLLOUT_EVENTS_LOST, records.told.lost, ()))
    for rollout in records.rollouts.values():
        values += _rollout(rollout)
        values += _totals(rollout.model, records.totals.get(rollout.model, Totals()))
    for report in shadows:
        values += _copies(report)
    found: dict[str, Family] = {}
    for metric, value, labels in values:
        family = found.setdefault(metric.name, Family(metric.name, metric.kind, metric.help))
        family.add(value, **dict(zip(metric.labels, map(label, labels), strict=True)))
    return list(found.values())


def _rollout(rollout: Rollout) -> Iterator[_Value]:
    of = (rollout.model,)
    yield declared.ROLLOUT_CURRENT, 1.0, (*of, rollout.stable, rollout.candidate, rollout.settings.plan)
    for phase in get_args(Phase):
        yield declared.ROLLOUT_PHASE, float(phase == rollout.phase), (*of, phase)
    yield declared.ROLLOUT_SINCE, rollout.since, of
    yield declared.ROLLOUT_PAUSED, float(rollout.paused is not None), of
    yield declared.ROLLOUT_SHARE, rollout.share, of
    yield declared.ROLLOUT_STAGE, rollout.stage + 1 if rollout.phase in SERVING else 0, of
    if rollout.phase in ENDED:
        return
    yield declared.ROLLOUT_REQUESTS, rollout.requests, of
    for kind in get_args(Kind):
        yield declared.ROLLOUT_VERDICT, float(kind == rollout.verdict), (*of, kind)


def _copies(report: ShadowReport) -> Iterator[_Value]:
    found, of = report.differences, (report.model,)
    same, alike = round(found.same * found.compared), round(found.alike * found.compared)
    counts = {
        "same": same,
        "alike": alike - same,
        "different": found.compared - alike,
        "failed": found.candidate_failed,
    }
    for outcome, count in (counts | {why: report.left_out.get(why, 0) for why in REFUSALS}).items():
        yield declared.ROLLOUT_COPIES, count, (*of, outcome)


def _totals(model: str, totals: Totals) -> Iterator[_Value]:
    yield declared.ROLLOUTS, totals.promoted, (model, "promoted", "")
    yield declared.ROLLOUTS, totals.reported, (model, "reported", "")
    # From 0 on: of a series that begins with 1 Prometheus sees no increase, and no alert would be raised.
    for cause, count in (dict.fromkeys(ROLLBACKS, 0) | dict(totals.rolled_back)).items():
        yield declared.ROLLOUTS, count, (model, "rolled_back", cause)
