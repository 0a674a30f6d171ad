"""Messages between the replicas of a host group, on a stream of `Replica/Join`, and their codec."""

import enum
from typing import Final

import msgspec
from google.protobuf.message import DecodeError

from protos import replica_pb2 as pb
from protos.protocol_error import ProtocolError
from protos.reshape import Span

JOIN_METHOD: Final = "/penstock.replica.v1.Replica/Join"


class JoinKind(enum.Enum):
    """The kinds of messages."""

    #: The sender lives.
    BEAT = pb.JOIN_BEAT
    #: First message of the replica that opens the stream.
    HELLO = pb.JOIN_HELLO
    #: Some of the KV cache that goes to the receiver.
    PART = pb.JOIN_PART
    #: All of it has been sent.
    GIVEN = pb.JOIN_GIVEN
    #: All of it is there, and the sender can serve its span.
    RECEIVED = pb.JOIN_RECEIVED
    #: The change is done; the sender serves its span.
    DONE = pb.JOIN_DONE
    #: The change is undone, as `failure` says.
    FAILED = pb.JOIN_FAILED


class Join(msgspec.Struct, frozen=True):
    """One message. `span` is the one that the sender serves, or on which it is parked; a `part` is the engine's own.

    `group`, `gpu` (the sender's first one) and `epoch` come with a hello.
    """

    kind: JoinKind
    change: int = 0
    span: Span = Span(0, 0)
    group: str = ""
    gpu: int = 0
    epoch: int = 0
    part: bytes = b""
    failure: str = ""


def encode_join(join: Join) -> bytes:
    """Encode a message."""
    return pb.Join(
        kind=join.kind.value,
        change=join.change,
        span=pb.Span(start=join.span.start, width=join.span.width),
        group=join.group,
        gpu=join.gpu,
        epoch=join.epoch,
        part=join.part,
        failure=join.failure,
    ).SerializeToString()


def decode_join(data: bytes) -> Join:
    """Decode a message. Raises ProtocolError for bytes that do not parse, and for a kind that is not known here."""
    try:
        m = pb.Join.FromString(data)
        kind = JoinKind(m.kind)
    except (DecodeError, ValueError) as error:
        raise ProtocolError("bytes that are no message between replicas of a host group") from error
    span = Span(m.span.start, m.span.width)
    return Join(kind, m.change, span, m.group, m.gpu, m.epoch, m.part, m.failure)
