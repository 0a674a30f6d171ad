"""Messages about changes of shape: host groups, the orders that change them, and how replicas stand in them."""

import enum

import msgspec

from protos.types import ReplicaInfo


class Span(msgspec.Struct, frozen=True, order=True):
    """The GPUs of one replica in its host group: `width` of them, which is its TP degree, from `start` on."""

    start: int
    width: int

    @property
    def end(self) -> int:
        """The first GPU after it."""
        return self.start + self.width

    def covers(self, other: "Span") -> bool:
        """Whether all GPUs of another span are its own."""
        return self.start <= other.start and other.end <= self.end

    def halves(self, width: int) -> tuple["Span", ...]:
        """Return the spans of a width, a divisor of its own, that take its place."""
        return tuple(Span(start, width) for start in range(self.start, self.end, width))


class ReshapePhase(enum.Enum):
    """The phases of a change, as they are ordered."""

    PREPARE = "prepare"
    TRANSFORM = "transform"
    ABORT = "abort"


class MemberState(enum.Enum):
    """How a replica stands in its host group."""

    SERVING = "serving"
    #: Its GPU belongs to a wider replica; it takes no submits.
    PARKED = "parked"
    #: It serves, and waits for the next phase of a change.
    PREPARED = "prepared"
    #: It serves more slowly, while a change is carried out.
    CHANGING = "changing"


class Participant(msgspec.Struct, frozen=True):
    """A replica that takes part in a change: its address for the others, its own first GPU, its epoch."""

    address: str
    gpu: int
    epoch: int


class ReshapeOrder(msgspec.Struct, frozen=True):
    """One phase of a change by which replicas on the spans `before` become replicas on `after`, on the same GPUs.

    `change` grows from one change of a group to the next. The replica with a span's first GPU serves it, and the others
    on it are parked. A prepared replica that hears nothing for `timeout_ms` goes back to what it was, and so does one
    whose change is not done for so long after the order to transform.
    """

    change: int
    phase: ReshapePhase
    group: str
    before: tuple[Span, ...]
    after: tuple[Span, ...]
    participants: tuple[Participant, ...]
    timeout_ms: int = 5000


class MemberWidth(msgspec.Struct, frozen=True):
    """A width that a replica's engine can take.

    A replica of it holds `kv_tokens`, and serves `relative_rate` times the requests per second and GPU of the narrowest
    width (0: not known). Steps would be held up for `change_ms` in all, were the shape changed to it now.
    """

    width: int
    kv_tokens: int
    relative_rate: float = 0.0
    change_ms: int = 0


class Membership(msgspec.Struct, frozen=True):
    """A replica's place in its host group of `gpus`, whose own first one is `gpu`.

    `span` is the one that it serves, or on which it is parked, there with the epoch of its server as `served_by`.
    `change` is the newest change that it was ordered, and `failure` why that was refused or undone. Without `widths`
    its shape cannot change. `info` is what the replica says of itself now. `revision` grows with each membership of one
    replica since its start: sessions may carry them in different orders.
    """

    group: str
    gpus: int
    gpu: int
    state: MemberState
    span: Span
    info: ReplicaInfo
    change: int = 0
    failure: str = ""
    served_by: int = 0
    widths: tuple[MemberWidth, ...] = ()
    revision: int = 0

    @property
    def parked(self) -> bool:
        """Whether it takes no submits: its GPU belongs to a wider replica, also while it takes part in a change."""
        return self.served_by != 0 or self.state is MemberState.PARKED
