"""Convert between the types of protos/reshape.py and protobuf messages."""

from collections.abc import Iterable
from typing import Final, TypeVar

from protos import replica_pb2 as pb
from protos.protocol_error import ProtocolError
from protos.reshape import Membership, MemberState, MemberWidth, Participant, ReshapeOrder, ReshapePhase, Span
from protos.types import ReplicaInfo

_PHASES: Final = {
    ReshapePhase.PREPARE: pb.RESHAPE_PREPARE,
    ReshapePhase.TRANSFORM: pb.RESHAPE_TRANSFORM,
    ReshapePhase.ABORT: pb.RESHAPE_ABORT,
}
_PHASES_BACK: Final[dict[int, ReshapePhase]] = {wire: phase for phase, wire in _PHASES.items()}
_STATES: Final = {
    MemberState.SERVING: pb.MEMBER_SERVING,
    MemberState.PARKED: pb.MEMBER_PARKED,
    MemberState.PREPARED: pb.MEMBER_PREPARED,
    MemberState.CHANGING: pb.MEMBER_CHANGING,
}
_STATES_BACK: Final[dict[int, MemberState]] = {wire: state for state, wire in _STATES.items()}
_T = TypeVar("_T")


def put_order(message: pb.ReshapeOrder, order: ReshapeOrder) -> None:
    """Write an order into a message."""
    message.change = order.change
    message.phase = _PHASES[order.phase]
    message.group = order.group
    message.before.extend(_wire_spans(order.before))
    message.after.extend(_wire_spans(order.after))
    for one in order.participants:
        message.participants.add(address=one.address, gpu=one.gpu, epoch=one.epoch)
    message.timeout_ms = order.timeout_ms


def order_of(message: pb.ReshapeOrder) -> ReshapeOrder:
    """Read an order. Raises ProtocolError for a phase that is not known here."""
    return ReshapeOrder(
        message.change,
        _known(_PHASES_BACK, message.phase, "phase"),
        message.group,
        _spans(message.before),
        _spans(message.after),
        tuple(Participant(one.address, one.gpu, one.epoch) for one in message.participants),
        message.timeout_ms,
    )


def put_membership(message: pb.Membership, membership: Membership, info: pb.Info) -> None:
    """Write a membership into a message, with its `info` as a message."""
    message.group = membership.group
    message.gpus = membership.gpus
    message.gpu = membership.gpu
    message.state = _STATES[membership.state]
    message.span.CopyFrom(pb.Span(start=membership.span.start, width=membership.span.width))
    message.change = membership.change
    message.failure = membership.failure
    message.served_by = membership.served_by
    message.revision = membership.revision
    for one in membership.widths:
        message.widths.add(
            width=one.width, kv_tokens=one.kv_tokens, relative_rate=one.relative_rate, change_ms=one.change_ms
        )
    message.info.CopyFrom(info)


def membership_of(message: pb.Membership, info: ReplicaInfo) -> Membership:
    """Read a membership, with its `info` read. Raises ProtocolError for a state that is not known here."""
    return Membership(
        message.group,
        message.gpus,
        message.gpu,
        _known(_STATES_BACK, message.state, "state"),
        Span(message.span.start, message.span.width),
        info,
        message.change,
        message.failure,
        message.served_by,
        tuple(MemberWidth(one.width, one.kv_tokens, one.relative_rate, one.change_ms) for one in message.widths),
        message.revision,
    )


def _known(table: dict[int, _T], wire: int, what: str) -> _T:
    found = table.get(wire)
    if found is None:
        raise ProtocolError(f"a {what} of a host group that is not known here: {wire}")
    return found


def _wire_spans(spans: Iterable[Span]) -> list[pb.Span]:
    return [pb.Span(start=span.start, width=span.width) for span in spans]


def _spans(messages: Iterable[pb.Span]) -> tuple[Span, ...]:
    return tuple(Span(one.start, one.width) for one in messages)
