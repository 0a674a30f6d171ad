"""How one worker sees one replica: what it tells the others, and operators."""

import enum

import msgspec


class State(enum.Enum):
    """From the best to the worst.

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
    """`reason` says why it gets no requests, or not all. `running` to `kv_blocks_total` are the engine's last report.

    `in_flight` are the sequences that this worker has there. `share` is the part of the decisions that may choose it,
    0 to 1; `breaker_seconds` is how long it is left alone still. `accuracy`, 0 to 1, says how well its cached tokens
    were predicted, None while nothing is known. `version` is the served model's, empty where nobody says. `faults` and
    `ejections` are how often it has failed, and was left alone for it, since this worker knows it.
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
