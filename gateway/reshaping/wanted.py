"""Make the snapshot for decisions on a model's shapes from memberships and demand reports. Pure."""

from collections.abc import Mapping, Sequence

import msgspec

from gateway.reshaping.change import Change, ReshapeDemand, failed_lately, shape_name
from gateway.scaling.demand.demand_counter import MEMORY_SECONDS
from gateway.scaling.demand.demand_reports import ModelReport
from gateway.scaling.demand.merged_demand import pool_knowledge, short_demand
from protos.reshape import MemberWidth
from protos.types import Role
from replicas.controller.capacity import replica_capacity
from replicas.controller.scaling_settings import Slo
from replicas.controller.snapshot import PoolSnapshot
from replicas.controller.workload import workload_of
from replicas.reshape.group_view import GroupView
from replicas.reshape.obstacles import widths_of
from replicas.reshape.ordered_change import ENDED
from replicas.reshape.snapshot import HostGroup, ReshapeSnapshot, ShapedReplica, Width
from routing.estimates.step_model import StepModel


class Wanted(msgspec.Struct, frozen=True):
    """Demand for a model, added up over all workers. `needs` are KV tokens, each with the seconds waited.

    `narrow_rate` are the short requests per second and GPU that the narrowest width serves, 0: not known.
    `short_tokens` is the mean KV need of a short request, or of any where none of these has ended; `known` whether any
    worker reports.
    """

    known: bool = False
    needs: Sequence[tuple[int, float]] = ()
    short_rate: float = 0.0
    long_rate: float = 0.0
    queued: bool = False
    narrow_rate: float = 0.0
    short_tokens: float = 0.0

    @property
    def shown(self) -> ReshapeDemand | None:
        """As operators are told it; None: nobody reports."""
        if not self.known:
            return None
        return ReshapeDemand(
            short_rate=round(self.short_rate, 4),
            long_rate=round(self.long_rate, 5),
            waiting=len(self.needs),
            longest=max((need for need, _ in self.needs), default=0),
            oldest_wait=round(max((waited for _, waited in self.needs), default=0.0), 3),
        )


def wanted_of(
    reports: Sequence[ModelReport], pools: Sequence[str], slo: Slo, widths: Mapping[int, MemberWidth]
) -> Wanted:
    """Return what the workers' reports on a model come to, whose `pools` have groups."""
    demand = short_demand(reports)
    if demand is None:
        return Wanted()
    needs = tuple((need, waited) for report in reports for need, waited in report.long_waits)
    long_rate = sum(report.long_ended for report in reports) / MEMORY_SECONDS
    narrow_rate, workload = 0.0, workload_of(demand)
    if workload is not None and widths:
        for pool in pools:
            known = pool_knowledge(reports, pool)
            times = None if known.steps is None else StepModel.of(known.steps)
            width = widths.get(known.steps.gpus) if known.steps is not None else None
            if times is None or width is None:
                continue
            size = PoolSnapshot(
                kv_tokens=width.kv_tokens, max_sequences=known.max_sequences, max_step_tokens=known.max_step_tokens
            )
            full = replica_capacity(Role.BOTH, size, times, workload, slo).full_rate
            narrow_rate = max(narrow_rate, full / width.width / (width.relative_rate or 1.0))
    return Wanted(
        known=True,
        needs=needs,
        short_rate=max(demand.requests_per_second - long_rate, 0.0),
        long_rate=long_rate,
        queued=demand.waiting > len(needs),
        narrow_rate=narrow_rate,
        short_tokens=demand.prompt_tokens + demand.output_tokens,
    )


def known_widths(widths: Mapping[int, MemberWidth], wanted: Wanted) -> dict[int, Width]:
    """Return what replicas of each width hold and serve; one whose rate is not known counts as good as the narrowest.

    Where nobody knows what the narrowest serves, rates say only what widths serve beside each other.
    """
    rate = wanted.narrow_rate or 1.0
    return {width: Width(one.kv_tokens, rate * (one.relative_rate or 1.0)) for width, one in widths.items()}


def common_widths(views: Sequence[GroupView]) -> dict[int, MemberWidth]:
    """Return the widths that all engines of all groups can take."""
    return widths_of([member for view in views for member in view.members])


def snapshot_of(
    groups: Sequence[HostGroup], widths: Mapping[int, Width], wanted: Wanted, now: float, *, must_pay: bool = False
) -> ReshapeSnapshot:
    """Return what is decided on; with `must_pay`, room is made only for requests that are worth it."""
    return ReshapeSnapshot(
        now=now,
        groups=groups,
        widths=widths,
        waiting=[need for need, _ in wanted.needs],
        waiting_since=[now - waited for _, waited in wanted.needs],
        # Beside rates that only say what widths serve beside each other, a rate means nothing.
        short_rate=wanted.short_rate if wanted.narrow_rate else 0.0,
        queued=wanted.queued,
        long_rate=wanted.long_rate,
        short_tokens=wanted.short_tokens if must_pay else 0.0,
    )


def host_group(view: GroupView, change: Change | None, barred: str, cool_down: float, now: float) -> HostGroup:
    """Return a group as decisions see it; `barred` is what forbids a change of it alone."""
    held, since = "", float("-inf")
    if change is not None and change.phase not in ENDED:
        held = f"change {change.id} is {change.phase}"
    elif change is not None and change.goes_on:
        held = f"change {change.id} is done, and what was ordered goes on to {shape_name(change.goal)}"
    elif change is not None and change.ended is not None:
        since = change.ended
        barred = barred or failed_lately(change, cool_down, now)
    return HostGroup(view.name, view.gpus, view.replicas, since, held, barred)


def in_place_gpu_seconds(widths: Mapping[int, MemberWidth], replicas: Sequence[ShapedReplica], width: int) -> float:
    """Return the GPU seconds for which steps are held up by a change of some replicas to a width."""
    gpus = max(width, *(replica.span.width for replica in replicas))
    return widths[width].change_ms * 1e-3 * gpus
