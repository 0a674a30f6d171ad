"""A rollout: the change of a model from its stable version to a candidate, as the store has it.

Times are seconds since the epoch by the store's clock.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, get_args

import msgspec
from msgspec import Meta

from routing.rollouts.settings import Rollout as Settings
from routing.rollouts.verdicts.verdict import Kind as VerdictKind
from routing.rollouts.verdicts.verdict import Verdict

#: One hash tag for all that the controller of rollouts keeps, which its scripts touch together.
PREFIX: Final = "penstock:{rollouts}:"
#: A hash: model -> its last rollout, as JSON.
ROLLOUTS: Final = f"{PREFIX}rollouts"
#: A hash: model -> digest of the last declaration in the file that was taken.
DECLARED: Final = f"{PREFIX}declared"
#: A hash: model -> how its rollouts have ended, as JSON of `Totals`.
TOTALS: Final = f"{PREFIX}totals"
#: A plain value: what the controller tells, as JSON of `Told`.
STATUS: Final = f"{PREFIX}status"
#: A channel: that an order has come.
HURRY: Final = f"{PREFIX}hurry"
#: A stream: what has happened to all rollouts, as JSON of `Event`.
HISTORY: Final = f"{PREFIX}history"

#: Events that a rollout has at most.
MOST_EVENTS: Final = 64

#: How far a rollout is.
#:
#: `preparing`: until enough replicas of the candidate are ready. `warming`: each of them is sent requests like the
#: model's own. `smoke`, `golden`: gates, which run outside the traffic. `shadowing`: copies of requests go to it.
#: `shifting`: it gets the share of its stage. `testing`: both versions keep their shares, until somebody decides.
#: `holding`: it gets everything, and the old version is kept. `draining`: it is the stable version, and what the old
#: one still has ends. `rolling_back`: the old version gets everything, and what the candidate still has ends.
Phase = Literal[
    "preparing",
    "warming",
    "smoke",
    "golden",
    "shadowing",
    "shifting",
    "testing",
    "holding",
    "promoting",
    "draining",
    "done",
    "rolling_back",
    "rolled_back",
]
#: Phases that nothing follows.
ENDED: Final[frozenset[Phase]] = frozenset({"done", "rolled_back"})
#: Phases in which the candidate answers clients.
SERVING: Final[frozenset[Phase]] = frozenset({"shifting", "testing", "holding", "promoting"})

#: Why a rollout was rolled back.
RollbackCause = Literal[
    "aborted",
    "worse",
    "bounds",
    "slow",
    "failed_gate",
    "inconclusive",
    "failed_warmup",
    "not_ready",
    "gone",
    "superseded",
]
ROLLBACKS: Final[Sequence[str]] = get_args(RollbackCause)
#: Why a rollout went on to another phase or stage: bounded words, for metrics.
Cause = Literal[
    "started",
    "ready",
    "warm",
    "passed",
    "held",
    "promoted",
    "drained",
    "reported",
    RollbackCause,
    "paused",
    "resumed",
]
#: What an operator wants of a rollout that has begun.
Wish = Literal["run", "pause", "promote", "abort"]


class Event(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step of a rollout: the phase and stage that it went to, and why."""

    rollout: str
    number: Annotated[int, Meta(description="Of the rollout's events, from 1: a webhook may be told one twice.")]
    at: float
    model: str
    candidate: str
    phase: Phase
    stage: Annotated[int, Meta(description="Number of the stage, from 0.")] = 0
    share: Annotated[float, Meta(description="The candidate's share of requests from then on.")] = 0.0
    cause: Cause
    reason: Annotated[str, Meta(description="A sentence for operators.")]
    verdict: Annotated[VerdictKind | None, Meta(description="What the versions' comparison said then.")] = None
    requests: Annotated[int, Meta(description="Requests of the candidate that were measured in the step before.")] = 0


class Warmed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A replica of the candidate that was sent requests like the model's own, and how fast it answered."""

    requests: int
    ttft_seconds: Annotated[float, Meta(description="The worst first token, in seconds.")]
    tpot_seconds: Annotated[float, Meta(description="The worst mean of the tokens after it, in seconds.")]


class Rollout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rollout as the controller last left it."""

    object: Literal["rollout"] = "rollout"
    id: Annotated[str, Meta(description="Unique for ever.")]
    model: str
    stable: Annotated[str, Meta(description="The version that was stable when it began.")]
    candidate: str
    configured: Annotated[str, Meta(description="The stable version of the file, under which it holds.")]
    settings: Settings
    declared: Annotated[str, Meta(description="Digest of its declaration in the file; empty: an operator's.")] = ""
    actor: str
    started: float
    phase: Phase
    stage: Annotated[int, Meta(description="Number of the stage, from 0.")] = 0
    share: Annotated[float, Meta(description="The candidate's share of requests.")] = 0.0
    epoch: Annotated[int, Meta(description="Grows with each change of shares; measures are counted by it.")] = 1
    first_epoch: Annotated[int, Meta(description="The epoch that it began with.")] = 1
    since: Annotated[float, Meta(description="When this stage began, later by as long as it was paused.")]
    paused: Annotated[float | None, Meta(description="Since when it is paused; null: it goes on.")] = None
    size: Annotated[
        int, Meta(description="Replicas of the stable version that were ready when it began; 0: not known yet.")
    ] = 0
    warmed: Annotated[Mapping[str, Warmed], Meta(description="Replicas of the candidate that are warm, by id.")] = {}
    requests: Annotated[int, Meta(description="Requests of the candidate that were measured in this stage.")] = 0
    counted: Annotated[int, Meta(description="The same of all stages before.")] = 0
    verdict: Annotated[VerdictKind | None, Meta(description="The last comparison; null: none yet.")] = None
    problem: Annotated[str, Meta(description="What it waits for; empty: nothing but time and requests.")] = ""
    reason: Annotated[str, Meta(description="Why it is in this phase.")] = ""
    ended: Annotated[float | None, Meta(description="When it ended; null: it has not.")] = None
    promoted: Annotated[bool, Meta(description="Whether the candidate has become the stable version.")] = False
    steps: Annotated[int, Meta(description="Number of its last event.")] = 0
    history: Annotated[Sequence[Event], Meta(description="Its last steps, the newest last.")] = ()


class Totals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a model's rollouts have ended, since the store has them."""

    promoted: int = 0
    reported: Annotated[int, Meta(description="Shadows that have come to their end.")] = 0
    rolled_back: Annotated[Mapping[str, int], Meta(description="By cause.")] = {}


class Told(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last status of the controller of rollouts: who acts, and its comparisons by model."""

    at: float
    controller: str
    verdicts: Mapping[str, Verdict] = {}
    lost: Annotated[int, Meta(description="Events that no webhook took, since this process began.")] = 0
    unreadable: Annotated[
        Mapping[str, Sequence[str]], Meta(description="Keys of the store that it cannot read something of, by model.")
    ] = {}
