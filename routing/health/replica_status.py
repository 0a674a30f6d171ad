"""The status of one replica as one worker sees it, for other workers and operators."""

import enum

import msgspec


class State(enum.Enum):
    """The states of a replica, from the best to the worst.

    `draining` has requests left, `drained` has none; `refused` answers, but not as what is configured.
    """

    READY = "ready"
    RETURNING = "returning"
    DRAINING = "draining"
    DRAINED = "drained"
    PROBING = "probing"
    CONNECTING = "connecting"
    REFUSED = "refused"
    WEDGED = "wedged"
    EJECTED = "ejected"


class ReplicaStatus(msgspec.Struct, frozen=True):
    """A replica's status. `reason`: why it gets no or fewer requests. `running` to `kv_blocks_total`: the last report.

    `in_flight` are this worker's sequences there. `share` is the part of the decisions that may choose it, 0 to 1;
    `breaker_seconds` is the time until its breaker may close. `accuracy`, 0 to 1, is that of predicted cached tokens,
    None while unknown. `version` is the served model's, empty if unknown. `faults` and `ejections` count since this
    worker has known the replica.
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
