"""The status of one replica as one worker sees it, for other workers and operators."""

import enum

import msgspec

from protos.reshape import Membership, MemberState, Span
from protos.types import Shape


class State(enum.Enum):
    """The states of a replica, from the best to the worst.

    `parked`: its GPU belongs to a wider replica of its host group. `draining` has requests left, `drained` has none;
    `refused` answers, but not as what is configured.
    """

    READY = "ready"
    RETURNING = "returning"
    PARKED = "parked"
    DRAINING = "draining"
    DRAINED = "drained"
    PROBING = "probing"
    CONNECTING = "connecting"
    REFUSED = "refused"
    WEDGED = "wedged"
    EJECTED = "ejected"


class GroupPlace(msgspec.Struct, frozen=True):
    """How a replica stands in its host group of `gpus`, in short; see Membership."""

    group: str
    gpus: int
    gpu: int
    state: MemberState
    span: Span
    change: int = 0
    failure: str = ""

    @classmethod
    def of(cls, membership: Membership) -> "GroupPlace":
        """Return a membership in short: one that takes part in a change while it is parked is still parked."""
        state = MemberState.PARKED if membership.parked else membership.state
        where = membership.group, membership.gpus, membership.gpu
        return cls(*where, state, membership.span, membership.change, membership.failure)


class ReplicaStatus(msgspec.Struct, frozen=True):
    """A replica's status. `reason`: why it gets no or fewer requests. `running` to `kv_blocks_total`: the last report.

    `in_flight` are this worker's sequences there. `share` is the part of the decisions that may choose it, 0 to 1;
    `breaker_seconds` is the time until its breaker may close. `accuracy`, 0 to 1, is that of predicted cached tokens,
    None while unknown. `version` is the served model's, empty if unknown. `faults` and `ejections` count since this
    worker has known the replica. `shape` is the present one, and `group` the replica's place in its host group, if it
    is in one. `longest` is the KV tokens that the longest of this worker's sequences may take, where shapes change.
    """

    id: str
    pool: str
    state: State
    reason: str
    running: int
    waiting: int
    kv_blocks_used: int
    kv_blocks_total: int
    in_flight: int
    share: float
    breaker_seconds: float
    accuracy: float | None = None
    address: str = ""
    version: str = ""
    faults: int = 0
    ejections: int = 0
    shape: Shape | None = None
    group: GroupPlace | None = None
    longest: int = 0
