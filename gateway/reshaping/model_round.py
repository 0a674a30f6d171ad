"""One round of one model's shapes: changes go on, orders are taken, a decision is made. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from gateway.reshaping.change import (
    POLICY,
    Advice,
    Change,
    Event,
    GroupStatus,
    MemberStatus,
    ModelShapes,
    ParticipantRecord,
    Totals,
    WidthStatus,
    counted,
    rests_until,
    shape_name,
)
from gateway.reshaping.holds_of import holds_of
from gateway.reshaping.model_facts import ModelFacts
from gateway.reshaping.relaunch_round import (
    falling_back,
    relaunch_advice,
    relaunch_begun,
    relaunch_refusal,
    relaunch_status,
    relaunched,
    with_lack,
)
from gateway.reshaping.shape_orders import ORDER_SECONDS, ShapeOrder
from gateway.reshaping.wanted import (
    Wanted,
    common_widths,
    host_group,
    in_place_gpu_seconds,
    known_widths,
    snapshot_of,
    wanted_of,
)
from gateway.scaling.leasing.lease import LEASE_SECONDS
from gateway.scaling.shape_holds import ShapeHolds
from protos.reshape import Span
from replicas.reshape.decide import Change as Decided
from replicas.reshape.decide import decide
from replicas.reshape.group_view import GroupView
from replicas.reshape.host_group import spans_of
from replicas.reshape.obstacles import difference, obstacle
from replicas.reshape.ordered_change import ENDED, advance, begun
from replicas.reshape.snapshot import HostGroup, ShapedReplica
from replicas.reshape.way import way

#: Seconds within which the controller of sizes heeds what is held, or a change is given up.
HEED_SECONDS: Final = 15.0
#: Seconds within which replicas are heard that can be reached.
REACH_SECONDS: Final = 5.0
#: Seconds after which the last change of a group that nothing is heard of is forgotten, and the group with it.
FORGET_SECONDS: Final = 86_400.0


class Outcome(msgspec.Struct):
    """The result of a round: changes, by group, that are new or have gone on, with their events and the status.

    `gone` are groups that are there no more.
    """

    changes: dict[str, Change]
    gone: list[str]
    taken: dict[str, str]
    events: list[Event]
    totals: Totals
    holds: ShapeHolds
    status: ModelShapes


def model_round(facts: ModelFacts, advised: Advice | None) -> Outcome:
    """Return the result of a round; `advised` is the last advice that was told and not followed."""
    changes: dict[str, Change] = {}
    taken: dict[str, str] = {}
    # A group's change may end and the next one begin in one round: each step is told when it is made.
    events: list[Event] = []
    totals = facts.totals
    for group, change in facts.changes.items():
        if change.phase not in ENDED and (after := _gone_on(change, facts)) != change:
            changes[group] = after
            events.append(event_of(after))
            totals = counted(totals, after)
        elif change.method == "relaunch" and (watched := _watched(change, facts)) != change:
            changes[group] = watched
            if watched.id != change.id:
                events.append(event_of(watched))
    for group, change in facts.changes.items():
        if change.goes_on and (problem := _stopped(change, facts)):
            changes[group] = msgspec.structs.replace(change, failure=problem)
            events.append(_refused(change.group, change.goal, change.actor, change.order, facts, problem))
        elif change.goes_on and not _waits(change, facts):
            changes[group] = _begun(facts, group, change.goal, change, change.reason, change)
            events.append(event_of(changes[group]))
    gone = [group for group, change in facts.changes.items() if _is_gone(change, facts)]
    last = {group: one for group, one in {**facts.changes, **changes}.items() if group not in gone}
    wanted = _wanted(facts)
    for group, order in facts.orders.items():
        if facts.taken.get(group) == order.id or _may_be_out_of_reach(order, facts):
            continue
        taken[group] = order.id
        if problem := _refusal(order, facts, last.get(group)):
            events.append(_refused(order.group, order.shape, order.actor, order.id, facts, problem))
        else:
            reason = f"{order.actor} has ordered it"
            last[group] = changes[group] = _begun(facts, group, order.shape, last.get(group), reason, order)
            events.append(event_of(last[group]))
    advice = None
    if facts.settings.mode != "off" and wanted.known and not _ended_since(last, facts):
        advice = _advice(facts, last, wanted) or _relaunch_advice(facts, last, wanted)
    if advice is not None and facts.settings.mode == "apply":
        group = advice.group
        last[group] = changes[group] = _begun(facts, group, advice.after, last.get(group), advice.reason)
        events.append(event_of(last[group]))
        advice = None
    elif advice is not None and not _alike(advice, advised):
        events.append(_told(advice, facts))
    totals = msgspec.structs.replace(totals, refused=totals.refused + sum(one.phase == "refused" for one in events))
    status = _status(facts, last, wanted, advice, totals)
    return Outcome(changes, gone, taken, events, totals, holds_of(facts, last), status)


# ---- changes


def _gone_on(change: Change, facts: ModelFacts) -> Change:
    if change.method == "relaunch":
        if facts.relaunch is None or facts.relaunch.group != change.group:
            return change.moved("failed", facts.now, "the configuration has no such pools any more")
        return relaunched(change, facts.relaunch, facts.now)
    if change.phase == "claimed":
        return _claimed(change, facts)
    after = advance(change.ordered(), facts.members, facts.now, facts.settings.transform_seconds)
    return change if after.phase == change.phase else change.moved(after.phase, facts.now, after.failure)


def _watched(change: Change, facts: ModelFacts) -> Change:
    """Return a relaunch that has ended with what is missing of it, or the change back that follows from that."""
    relaunch = facts.relaunch
    if change.phase not in ENDED or relaunch is None or relaunch.group != change.group:
        return change
    watched = with_lack(change, relaunch, facts.now)
    return falling_back(watched, relaunch, facts.now) or watched


def _claimed(change: Change, facts: ModelFacts) -> Change:
    """Let a change begin once nobody else changes the size of what takes part."""
    addresses = {one.address for one in change.participants}
    for address in sorted(addresses & facts.intents.keys()):
        if facts.intents[address].state != "run":
            return change.moved("failed", facts.now, f"the controller of sizes is ending {address}")
    holds, scaling, lasted = facts.holds, facts.inputs.scaling, facts.now - change.since
    if addresses <= set(holds.addresses):
        # Where no controller of sizes is heard, its lease must be over before nobody can act on what was before.
        heeded = lasted > LEASE_SECONDS if scaling is None else scaling.heeds.get(facts.model, 0) >= holds.version
        if heeded:
            return change.moved("preparing", facts.now)
    if lasted >= HEED_SECONDS:
        return change.moved("failed", facts.now, f"the controller of sizes has not heeded it for {HEED_SECONDS:.0f} s")
    return change


def _begun(
    facts: ModelFacts,
    group: str,
    shape: Sequence[int],
    last: Change | None,
    reason: str,
    order: ShapeOrder | Change | None = None,
) -> Change:
    """Return the first change on the way to a shape; `order` None: nobody has asked for it."""
    asked = _asked(order)
    if facts.relaunch is not None and group == facts.relaunch.group:
        return relaunch_begun(facts.model, facts.relaunch, last, shape, reason, facts.now, *asked)
    view = facts.views[group]
    id_ = max(view.change, last.id if last is not None else 0) + 1
    first, *further = way(view.spans, spans_of(shape))
    going, coming = difference(view.spans, first)
    ordered = begun(id_, view.name, going, coming, view.members, facts.now)
    launched = any(one.address in facts.intents for one in ordered.participants)
    return Change(
        id=id_,
        model=facts.model,
        group=view.name,
        before=_widths(view.spans),
        after=_widths(first),
        phase="claimed" if launched else "preparing",
        reason=reason,
        actor=asked[0],
        order=asked[1],
        participants=[
            ParticipantRecord(address=one.address, gpu=one.gpu, epoch=one.epoch) for one in ordered.participants
        ],
        started=facts.now,
        since=facts.now,
        failed=last.failed if last is not None else 0,
        goal=list(shape) if further else (),
    )


def _is_gone(change: Change, facts: ModelFacts) -> bool:
    """Whether a group was taken away for good: nobody has heard of it for a day, or of any change of it."""
    if not change.is_over or change.ended is None or facts.now - change.ended < FORGET_SECONDS:
        return False
    return change.group not in facts.views and (facts.relaunch is None or change.group != facts.relaunch.group)


def _asked(order: ShapeOrder | Change | None) -> tuple[str, str]:
    """Return who has asked for a change, and the id of the order, which a change before it may have been for."""
    if order is None:
        return POLICY, ""
    return order.actor, order.order if isinstance(order, Change) else order.id


def _waits(change: Change, facts: ModelFacts) -> bool:
    """Whether what is to follow on a change waits for replicas that are not heard, or not free, just now."""
    view = facts.views.get(change.group)
    return view is None or bool(facts.barred(view))


def _stopped(change: Change, facts: ModelFacts) -> str:
    """Say why nothing follows on a change; empty: something does, or may yet."""
    view = facts.views.get(change.group)
    if _waits(change, facts):
        late = change.ended is None or facts.now - change.ended >= REACH_SECONDS
        return (facts.barred(view) if view is not None else "no replica of it can be reached") if late else ""
    assert view is not None, "one that is not heard waits"
    holds = {width: one.kv_tokens for width, one in facts.widths(view).items()}
    return obstacle(view.gpus, view.replicas, holds, spans_of(change.goal))


def _may_be_out_of_reach(order: ShapeOrder, facts: ModelFacts) -> bool:
    """Whether a new order waits for replicas that are not heard, as after another controller has taken over."""
    if facts.relaunch is not None and order.group == facts.relaunch.group:
        return False
    view = facts.views.get(order.group)
    return (view is None or bool(view.problem)) and facts.now - order.at < REACH_SECONDS


def _refusal(order: ShapeOrder, facts: ModelFacts, last: Change | None) -> str:
    """Say why an order is not begun with; empty: it is."""
    view = facts.views.get(order.group)
    if facts.now - order.at > ORDER_SECONDS:
        return f"no controller took it within {ORDER_SECONDS:.0f} s"
    if facts.relaunch is not None and order.group == facts.relaunch.group:
        return relaunch_refusal(facts.relaunch, last, order.shape)
    if view is None:
        return "no replica of such a group can be reached"
    if last is not None and not last.is_over:
        return f"change {last.id} of it is under way"
    if barred := facts.barred(view):
        return barred
    holds = {width: one.kv_tokens for width, one in facts.widths(view).items()}
    return obstacle(view.gpus, view.replicas, holds, spans_of(order.shape))


# ---- the decision


def _wanted(facts: ModelFacts) -> Wanted:
    reports = [report[facts.model] for report in facts.inputs.demand if facts.model in report]
    pools = sorted(set(facts.pools.values()))
    return wanted_of(reports, pools, facts.slo, common_widths(list(facts.views.values())))


def _ended_since(last: Mapping[str, Change], facts: ModelFacts) -> bool:
    """Whether a change has ended since a worker last said what waits: that may have been served."""
    told = facts.now - facts.inputs.demand_age
    return any(change.ended is not None and change.ended >= told for change in last.values())


def _advice(facts: ModelFacts, last: Mapping[str, Change], wanted: Wanted) -> Advice | None:
    """Return the change that is to be begun now; None: there is none."""
    settings = facts.reshape_settings
    in_place = [view for view in facts.views.values() if facts.widths(view)]
    if not in_place:
        return None
    widths = common_widths(in_place)
    groups = [
        host_group(view, last.get(view.name), facts.barred(view), settings.cool_down, facts.now) for view in in_place
    ]
    if not all(replica.span.width in widths for group in groups for replica in group.replicas):
        # Engines that serve a width that others cannot say what it is worth.
        return None

    def cost_of(group: HostGroup, replicas: tuple[ShapedReplica, ...], width: int) -> float:
        return in_place_gpu_seconds(widths, replicas, width)

    snapshot = snapshot_of(groups, known_widths(widths, wanted), wanted, facts.now)
    for decided in decide(snapshot, settings, cost_of):
        group = next(one for one in groups if one.name == decided.group)
        inside = tuple(one for one in group.replicas if one.span in decided.before)
        after = _after(group.spans, decided)
        return Advice(
            group=decided.group,
            before=_widths(group.spans),
            after=after,
            reason=decided.reason,
            gpu_seconds=round(cost_of(group, inside, decided.after[0].width), 4),
        )
    return None


def _relaunch_advice(facts: ModelFacts, last: Mapping[str, Change], wanted: Wanted) -> Advice | None:
    if facts.relaunch is None:
        return None
    return relaunch_advice(facts.relaunch, last.get(facts.relaunch.group), wanted, facts.reshape_settings, facts.now)


def _after(spans: Sequence[Span], decided: Decided) -> list[int]:
    return _widths([*(span for span in spans if span not in decided.before), *decided.after])


def _widths(spans: Sequence[Span]) -> list[int]:
    return [span.width for span in sorted(spans)]


def _alike(advice: Advice, last: Advice | None) -> bool:
    return last is not None and (advice.group, list(advice.after)) == (last.group, list(last.after))


# ---- what is told


def event_of(change: Change) -> Event:
    """Return what is told of a change when it has come to its phase."""
    reason = change.failure if change.phase in ("aborting", "failed") else change.reason
    return Event(
        at=change.since,
        model=change.model,
        group=change.group,
        change=change.id,
        phase=change.phase,
        before=change.before,
        after=change.after,
        method=change.method,
        actor=change.actor,
        order=change.order,
        reason=reason,
        seconds=None if change.ended is None else round(change.ended - change.started, 3),
    )


def _refused(group: str, shape: Sequence[int], actor: str, order: str, facts: ModelFacts, problem: str) -> Event:
    view = facts.views.get(group)
    return Event(
        at=facts.now,
        model=facts.model,
        group=group,
        phase="refused",
        before=_widths(view.spans) if view is not None else (),
        after=shape,
        actor=actor,
        order=order,
        reason=problem,
    )


def _told(advice: Advice, facts: ModelFacts) -> Event:
    return Event(
        at=facts.now,
        model=facts.model,
        group=advice.group,
        phase="advised",
        before=advice.before,
        after=advice.after,
        actor=POLICY,
        reason=f"{shape_name(advice.after)} would be better: {advice.reason}",
    )


def _status(
    facts: ModelFacts, last: Mapping[str, Change], wanted: Wanted, advice: Advice | None, totals: Totals
) -> ModelShapes:
    groups = [_group_status(facts, view, last.get(name)) for name, view in facts.views.items()]
    if (relaunch := facts.relaunch) is not None:
        cool_down = facts.settings.cool_down_seconds
        groups.append(relaunch_status(relaunch, last.get(relaunch.group), cool_down, facts.now))
    for name, change in sorted(last.items()):
        if all(name != one.group for one in groups):
            groups.append(
                GroupStatus(
                    group=name,
                    gpus=sum(change.before),
                    method=change.method,
                    shape=change.after if change.phase == "done" else change.before,
                    problem="none of its replicas can be reached",
                    change=change,
                )
            )
    return ModelShapes(
        model=facts.model,
        mode=facts.settings.mode,
        groups=groups,
        demand=wanted.shown,
        advice=advice,
        totals=totals,
    )


def _group_status(facts: ModelFacts, view: GroupView, change: Change | None) -> GroupStatus:
    widths, barred = facts.widths(view), facts.barred(view)
    seen = host_group(view, change, barred, facts.settings.cool_down_seconds, facts.now)
    return GroupStatus(
        group=view.name,
        gpus=view.gpus,
        method="in_place" if widths else None,
        shape=_widths(view.spans),
        members=[
            MemberStatus(
                address=member.address,
                gpu=member.gpu,
                start=member.membership.span.start,
                width=member.membership.span.width,
                state=member.membership.state.value,
                leads=member.leads,
                used=member.used,
                longest=member.longest,
            )
            for member in view.members
        ],
        widths=[
            WidthStatus(
                width=one.width, kv_tokens=one.kv_tokens, relative_rate=one.relative_rate, change_ms=one.change_ms
            )
            for one in widths.values()
        ],
        held=seen.held or seen.barred,
        problem="" if change is not None and change.phase not in ENDED else view.problem,
        rests_until=rests_until(change, facts.settings.cool_down_seconds, facts.now),
        change=change,
    )
