"""One change from its order to its end, as whoever orders it follows it by what the replicas say.

A change is written down before each order that follows from it is sent, and orders may be repeated: whoever goes on
with a change that somebody else began does as that one would have done.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from protos.reshape import Membership, MemberState, Participant, ReshapeOrder, ReshapePhase, Span
from replicas.reshape.group_view import Member

#: How far a change is. `claimed`: nothing was ordered yet; others are to keep their hands off the group.
Phase = Literal["claimed", "preparing", "transforming", "aborting", "done", "failed"]
#: Phases that nothing follows.
ENDED: Final[frozenset[Phase]] = frozenset({"done", "failed"})
#: Seconds within which all replicas are prepared, or have gone back.
ANSWER_SECONDS: Final = 5.0
_ORDERS: Final[Mapping[Phase, ReshapePhase]] = {
    "preparing": ReshapePhase.PREPARE,
    "transforming": ReshapePhase.TRANSFORM,
    "aborting": ReshapePhase.ABORT,
    # For those that did not go back in time.
    "failed": ReshapePhase.ABORT,
}


class OrderedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a group's replicas from the spans `before` to `after`. `since` is when it came to its phase.

    `id` is the number that replicas are ordered it by, and `failure` why it does not come to its end.
    """

    id: int
    group: str
    before: tuple[Span, ...]
    after: tuple[Span, ...]
    participants: tuple[Participant, ...]
    phase: Phase
    since: float
    failure: str = ""

    def to(self, phase: Phase, now: float, failure: str = "") -> "OrderedChange":
        """Return it in another phase."""
        return msgspec.structs.replace(self, phase=phase, since=now, failure=failure or self.failure)


def begun(
    id_: int, group: str, before: Sequence[Span], after: Sequence[Span], members: Sequence[Member], now: float
) -> OrderedChange:
    """Return a change that nothing was ordered of yet; `members` are those of the group."""
    taking_part = [member for member in members if any(span.covers(_own(member)) for span in before)]
    return OrderedChange(
        id=id_,
        group=group,
        before=tuple(sorted(before)),
        after=tuple(sorted(after)),
        participants=tuple(Participant(member.address, member.gpu, member.epoch) for member in taking_part),
        phase="claimed",
        since=now,
    )


def advance(
    change: OrderedChange, members: Mapping[str, Member], now: float, transform_seconds: float
) -> OrderedChange:
    """Return a change as it is by what its participants say; `members` are by address, without those out of reach."""
    if change.phase in ENDED or change.phase == "claimed":
        return change
    found = [members.get(one.address) for one in change.participants]
    if change.phase in ("transforming", "aborting") and not (lie := _undone(change, found)):
        return change.to("done", now)
    if change.phase == "aborting":
        if all(_is_back(change, one, member) for one, member in zip(change.participants, found, strict=True)):
            return change.to("failed", now)
        late = now - change.since >= ANSWER_SECONDS
        return change.to("failed", now, f"{change.failure}; then not all went back in time") if late else change
    if failure := _failure(change, found):
        return change.to("aborting", now, failure)
    if change.phase == "preparing":
        waits = [one for one, member in zip(change.participants, found, strict=True) if not _prepared(change, member)]
        if not waits:
            return change.to("transforming", now)
        if now - change.since >= ANSWER_SECONDS:
            return change.to("aborting", now, f"{waits[0].address} did not answer within {ANSWER_SECONDS:g} s")
    elif now - change.since >= transform_seconds:
        return change.to("aborting", now, f"it was not done within {transform_seconds:g} s: {lie}")
    return change


def order_of(change: OrderedChange, transform_seconds: float) -> ReshapeOrder | None:
    """Return the order of its phase; None: there is none."""
    phase = _ORDERS.get(change.phase)
    if phase is None:
        return None
    seconds = transform_seconds if phase is ReshapePhase.TRANSFORM else ANSWER_SECONDS
    return ReshapeOrder(
        change.id,
        phase,
        change.group,
        change.before,
        change.after,
        change.participants,
        timeout_ms=int(1000 * seconds),
    )


def to_tell(change: OrderedChange, members: Mapping[str, Member]) -> list[str]:
    """Return the addresses of the participants that have not heeded the order of its phase."""
    found = [members.get(one.address) for one in change.participants]
    return [member.address for member in found if member is not None and _ignores(change, member)]


def _ignores(change: OrderedChange, member: Member) -> bool:
    membership = member.membership
    if change.phase == "preparing":
        return membership.change < change.id
    if change.phase == "transforming":
        return membership.change == change.id and membership.state is MemberState.PREPARED
    if change.phase == "aborting" and membership.change < change.id:
        # One that has heard nothing of the change yet may still hear the order to prepare.
        return True
    return change.phase in ("aborting", "failed") and membership.change == change.id and not member.settled


def _prepared(change: OrderedChange, member: Member | None) -> bool:
    if member is None:
        return False
    return member.membership.change == change.id and member.membership.state is MemberState.PREPARED


def _failure(change: OrderedChange, found: Sequence[Member | None]) -> str:
    """Why a change cannot come to its end any more; empty: it can."""
    for one, member in zip(change.participants, found, strict=True):
        if member is None:
            # It may be the way there alone that is lost: time will tell.
            continue
        membership = member.membership
        if member.epoch != one.epoch:
            return f"{one.address} has restarted"
        if membership.change > change.id:
            return f"{one.address} was ordered another change, {membership.change}"
        if membership.change == change.id and membership.failure:
            return f"{one.address}: {membership.failure}"
    return ""


def _undone(change: OrderedChange, found: Sequence[Member | None]) -> str:
    """Why a change is not done; empty: all participants stand as ordered."""
    leaders = {member.gpu: member for member in found if member is not None and member.leads}
    for one, member in zip(change.participants, found, strict=True):
        if member is None:
            return f"{one.address} is out of reach"
        membership = member.membership
        span = next((span for span in change.after if span.start <= member.gpu < span.end), None)
        if span is None or member.epoch != one.epoch or membership.change != change.id:
            return f"{one.address} knows nothing of it"
        leader = leaders.get(span.start)
        if not _stands_on(span, membership, leader):
            return f"{one.address} is {_standing(membership)}"
    return ""


def _is_back(change: OrderedChange, one: Participant, member: Member | None) -> bool:
    """Whether a participant takes no part any more: one that was restarted does not either."""
    if member is None:
        return False
    return member.epoch != one.epoch or (member.settled and member.membership.change >= change.id)


def _stands_on(span: Span, membership: Membership, leader: Member | None) -> bool:
    if leader is None or membership.span != span or membership.failure:
        return False
    if membership.gpu == span.start:
        return membership.state is MemberState.SERVING and membership.info.shape.tp == span.width
    return membership.state is MemberState.PARKED and membership.served_by == leader.epoch


def _standing(membership: Membership) -> str:
    span = membership.span
    words = f"{membership.state.value} on TP{span.width} at GPU {span.start}"
    described = membership.info.shape.tp
    if membership.state is MemberState.SERVING and described != span.width:
        words += f", and describes itself as TP{described}"
    return words


def _own(member: Member) -> Span:
    return Span(member.gpu, 1)
