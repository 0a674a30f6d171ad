"""The replica listing for operators: the configuration combined with all workers' reports."""

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Annotated, Literal

from msgspec import Meta

from gateway.config.base import Record
from gateway.fleets.configured import ConfiguredReplica, Source
from gateway.fleets.drains import Drain
from gateway.fleets.reports import Report
from protos.reshape import MemberState
from protos.types import Role
from routing.health.replica_status import GroupPlace, ReplicaStatus, State

#: The state of a replica that no worker reports.
UNKNOWN = "unknown"
#: States in which a replica reports no load.
UNREPORTED_LOAD = (State.CONNECTING, State.REFUSED)
_WORST_LAST = {state: place for place, state in enumerate(State)}


class ShapeView(Record, frozen=True, kw_only=True):
    """Tensor, expert and pipeline parallel degrees."""

    tp: int
    ep: int
    pp: int


class GroupView(Record, frozen=True, kw_only=True):
    """A replica's place in the host group whose GPUs it shares with others."""

    name: str
    gpu: Annotated[int, Meta(description="Its own first GPU.")]
    gpus: Annotated[int, Meta(description="GPUs of the whole group.")]
    first: Annotated[int, Meta(description="First GPU of the span that it serves, or on which it is parked.")]
    last: Annotated[int, Meta(description="Last GPU of that span.")]
    state: Annotated[
        MemberState,
        Meta(
            description="`serving`; `parked` (its GPU belongs to a wider replica); `prepared` or `changing` during a "
            "change of shape."
        ),
    ]
    change: Annotated[int, Meta(description="The newest change that it was ordered; 0: none.")]
    failure: Annotated[str, Meta(description="Why that was refused or undone; empty where it is under way or done.")]


class ReplicaView(Record, frozen=True, kw_only=True):
    """One replica, as all workers together report it."""

    object: Literal["replica"] = "replica"
    model: str
    pool: str
    id: str
    address: str
    source: Annotated[
        Source,
        Meta(
            description="`static`: the file lists it; `local`: it is started here; `dns`, `registered`: it was found."
        ),
    ]
    version: Annotated[str, Meta(description="Of the model that it serves; empty where nobody says.")]
    shape: Annotated[ShapeView, Meta(description="As it serves now; as configured where nobody says.")]
    role: Role
    group: Annotated[GroupView | None, Meta(description="Its place in its host group, where it is in one.")]
    state: Annotated[
        str,
        Meta(
            description="`ready`, `returning` (gets a growing part of the requests), `parked` (its GPU belongs to a "
            "wider replica), `draining`, `drained`, `probing`, `connecting`, `refused` (not what is configured), "
            "`wedged`, `ejected`, or `unknown` where no worker runs. Of several workers' it is the worst."
        ),
    ]
    reason: Annotated[str, Meta(description="Why it gets no requests, or not all; empty where it does.")]
    workers: Annotated[int, Meta(description="Workers that report it.")]
    running: Annotated[int, Meta(description="Sequences in its engine, of all workers.")]
    waiting: Annotated[int, Meta(description="Sequences in its engine's own queue.")]
    kv_blocks_used: int
    kv_blocks_total: int
    in_flight: Annotated[int, Meta(description="Sequences that the workers have there.")]
    share: Annotated[float, Meta(description="The part of the decisions that may choose it, 0 to 1; mean of workers.")]
    breaker_seconds: Annotated[float, Meta(description="How long it is left alone still; 0 where it is not.")]
    accuracy: Annotated[
        float | None, Meta(description="How well its cached prompt tokens are predicted, 0 to 1; mean of workers.")
    ]
    drain: Annotated[Drain | None, Meta(description="What an operator has asked for, of it or of its pool.")]


def listing(
    replicas: Iterable[ConfiguredReplica], reports: Sequence[Report], drains: Sequence[Drain]
) -> list[ReplicaView]:
    """One row for each configured replica, in their order; in a pool those of a host group stand together, by GPU."""
    statuses: dict[tuple[str, str], list[ReplicaStatus]] = {}
    for one in reports:
        for model, reported_statuses in one.items():
            for status in reported_statuses:
                statuses.setdefault((model, status.id), []).append(status)
    rows = [_row(replica, statuses.get((replica.model, replica.id), []), drains) for replica in replicas]
    pools = {pool: place for place, pool in enumerate(dict.fromkeys((row.model, row.pool) for row in rows))}
    return sorted(rows, key=lambda row: (pools[row.model, row.pool], *_place(row)))


def _place(row: ReplicaView) -> tuple[bool, str, int]:
    return (True, "", 0) if row.group is None else (False, row.group.name, row.group.gpu)


def _row(
    replica: ConfiguredReplica, reported_statuses: Sequence[ReplicaStatus], drains: Sequence[Drain]
) -> ReplicaView:
    state, reason = _worst_state(reported_statuses)
    # The engine's figures are the same for all workers that receive them: take one that does.
    reporting = (status for status in reported_statuses if status.state not in UNREPORTED_LOAD)
    best = min(reporting, key=lambda status: _WORST_LAST[status.state], default=None)
    accuracies = [status.accuracy for status in reported_statuses if status.accuracy is not None]
    shape = (best.shape if best else None) or replica.shape
    return ReplicaView(
        model=replica.model,
        pool=replica.pool,
        id=replica.id,
        address=replica.address,
        source=replica.source,
        version=best.version if best else max((status.version for status in reported_statuses), default=""),
        shape=ShapeView(tp=shape.tp, ep=shape.ep, pp=shape.pp),
        role=replica.role,
        group=_group(best.group) if best and best.group else None,
        state=state,
        reason=reason,
        workers=len(reported_statuses),
        running=best.running if best else 0,
        waiting=best.waiting if best else 0,
        kv_blocks_used=best.kv_blocks_used if best else 0,
        kv_blocks_total=best.kv_blocks_total if best else 0,
        in_flight=sum(status.in_flight for status in reported_statuses),
        share=round(fmean(status.share for status in reported_statuses), 3) if reported_statuses else 0.0,
        breaker_seconds=round(max((status.breaker_seconds for status in reported_statuses), default=0.0), 1),
        accuracy=round(fmean(accuracies), 3) if accuracies else None,
        drain=next((drain for drain in drains if drain.covers(replica)), None),
    )


def _group(place: GroupPlace) -> GroupView:
    span = place.span
    return GroupView(
        name=place.group,
        gpu=place.gpu,
        gpus=place.gpus,
        first=span.start,
        last=span.end - 1,
        state=place.state,
        change=place.change,
        failure=place.failure,
    )


def _worst_state(reported_statuses: Sequence[ReplicaStatus]) -> tuple[str, str]:
    """The worst state that any worker reports, and its reason."""
    if not reported_statuses:
        return UNKNOWN, "no worker reports it"
    worst = max(reported_statuses, key=lambda status: _WORST_LAST[status.state])
    alike = sum(status.state is worst.state for status in reported_statuses)
    if alike == len(reported_statuses) or not worst.reason:
        return worst.state.value, worst.reason
    return worst.state.value, f"{worst.reason} (in {alike} of {len(reported_statuses)} workers)"
