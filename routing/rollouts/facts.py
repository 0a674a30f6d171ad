"""Facts of a rollout's two versions at one moment, beside the rollout's own state."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from routing.rollouts.rollout import Phase, Warmed, Wish
from routing.rollouts.verdicts.verdict import Kind as VerdictKind


class ReplicaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A replica, as all workers together say. `reason` is why it gets no requests, where it gets none."""

    id: str
    pool: str
    address: str
    ready: bool
    in_flight: int = 0
    reason: str = ""


class VersionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A version's replicas. `launched`: a launcher starts and stops some of them, `most` at most in all pools.

    `problem` is what keeps launchers from starting more; empty: nothing.
    """

    replicas: Sequence[ReplicaFacts] = ()
    launched: bool = False
    most: int = 0
    problem: str = ""

    @property
    def ready(self) -> Sequence[ReplicaFacts]:
        """Those that get requests."""
        return [replica for replica in self.replicas if replica.ready]

    @property
    def in_flight(self) -> int:
        """Requests that workers have there."""
        return sum(replica.in_flight for replica in self.replicas)


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on the candidate after `requests` of the whole rollout. `bound`: a hard bound was crossed.

    `short`: it is inconclusive for want of requests alone. `unproven`: what keeps the candidate from getting most of
    the requests; empty: nothing.
    """

    kind: VerdictKind
    reason: str
    requests: int = 0
    bound: bool = False
    short: bool = False
    unproven: str = ""


class WarmupResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a replica's warm-up. `slow`: it answered, later than the model's targets allow."""

    replica: str
    warmed: Warmed | None
    problem: str = ""
    slow: bool = False


#: Results of a gate; inconclusive: there was too little to judge by.
Passing = Literal["passed", "failed", "inconclusive"]


class GateResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a gate (`smoke`, `golden`, `shadowing`)."""

    gate: Phase
    passing: Passing
    reason: str


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known. `heard`: workers report; without a report nothing is decided by what replicas do.

    `wish` is None where nobody can say. `away_seconds`: for how long no replica of the candidate has been ready;
    `lacking_seconds`: for how long it has lacked replicas that the next stage needs. `superseded`: why the
    configuration has no place for it any more; empty: it has. `warmups` are by replica id. `gate_waits` says what the
    gate that runs still waits for; empty: it has not said.
    """

    wish: Wish | None = "run"
    heard: bool = True
    stable: VersionFacts = VersionFacts()
    candidate: VersionFacts = VersionFacts()
    away_seconds: float = 0.0
    lacking_seconds: float = 0.0
    superseded: str = ""
    compared: Compared | None = None
    warmups: Mapping[str, WarmupResult] = {}
    gate: GateResult | None = None
    gate_waits: str = ""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """An errand to begin outside the store: `warm_up` a replica, `run_gate` of the rollout's phase.

    An action is asked for as long as its result is not among the facts: it may be repeated, and is done once at a time.
    """

    what: Literal["warm_up", "run_gate"]
    replica: ReplicaFacts | None = None
