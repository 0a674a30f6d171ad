"""The seam of routing decisions: pure functions over a snapshot of replicas.

A policy that learns does so from `observe` alone, and reads no clock: what it must know of time comes with the request.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from protos.features import Feature
from protos.types import Load, Role, Shape, Timing, Work


class ReplicaView(msgspec.Struct, frozen=True):
    """One replica as a decision sees it.

    `load` is the engine's last report and covers all workers. What this worker sent and no report includes yet comes
    on top: `sent` sequences, the tokens of their prompts that are to be computed, and the tokens that the KV cache
    will hold for them. Of the sizes, 0 means that it is not known. `features` are the bits of protos/features.py, as a
    plain number for speed, and `adapters` the LoRA adapters that are loaded now.
    """

    id: str
    pool: str
    shape: Shape
    role: Role
    load: Load
    sent: int = 0
    sent_prompt_tokens: int = 0
    sent_kv_tokens: int = 0
    max_batch_size: int = 0
    kv_block_tokens: int = 0
    max_num_tokens: int = 0
    reserves_output: bool = False
    features: int = Feature.TOKENS.value
    adapters: frozenset[str] = frozenset()


class RouteRequest(msgspec.Struct, frozen=True):
    """What a decision may know of a request.

    `n` sequences share the prompt and are expected to have `expected_output` tokens each. `cached` says how many of
    the prompt's tokens which replica (by id) is believed to hold; one that is not named holds none. `chain` are the
    prefix hashes of the prompt's full blocks (protos/prefix_hash.py), empty where the policy does not ask for them.
    `arrived`, `now` and `deadline` are seconds on one monotonic clock; `rank` is the tenant's tier, 0 for the highest.
    With `may_wait` a policy may answer that the request had better wait (BetterWait), and is asked again soon.
    `needs` are the features (protos/features.py) without which a replica is no candidate, and `adapter` is the LoRA
    adapter to be used, if one is; candidates are chosen by both before a policy sees them.
    """

    request_id: str
    prompt_tokens: int
    max_tokens: int
    n: int = 1
    expected_output: float = 0.0
    cached: Mapping[str, int] = {}
    chain: Sequence[int] = ()
    arrived: float = 0.0
    now: float = 0.0
    deadline: float = float("inf")
    rank: int = 0
    may_wait: bool = False
    needs: int = 0
    adapter: str = ""


class Decision(msgspec.Struct, frozen=True):
    """Where a request goes: `replica` answers it, after `prefill` has computed its prompt if one is named.

    `reason` is a short constant for people; `expected_ttft` in seconds, where the policy has an idea of it.
    """

    replica: ReplicaView
    prefill: ReplicaView | None = None
    reason: str = ""
    expected_ttft: float | None = None

    @property
    def entry(self) -> ReplicaView:
        """The replica that the request is sent to first, where its prompt is computed."""
        return self.prefill or self.replica


class Routed(msgspec.Struct, frozen=True):
    """A request is on its way to where a decision said."""

    request: RouteRequest
    decision: Decision


class Stepped(msgspec.Struct, frozen=True):
    """A replica's engine has done a step."""

    view: ReplicaView
    work: Work


class Ended(msgspec.Struct, frozen=True):
    """A request is over: how it went. `ttft` and `seconds`, all that it took, count from `Routed` on; a `ttft` of None
    says that no token came.
    """

    request: RouteRequest
    decision: Decision
    cached_tokens: int
    output_tokens: int
    ttft: float | None
    timing: Timing
    seconds: float = 0.0


class Left(msgspec.Struct, frozen=True):
    """A replica is gone for good: what is known of it can be forgotten. One of the same id may come later."""

    replica_id: str


#: What a policy may learn from, in the order in which it happens.
Report = Routed | Stepped | Ended | Left


class Score(msgspec.Struct, frozen=True):
    """Why a candidate was taken or left: its value (the least wins), and the parts of which it is made.

    `prefill` is the partner that computes the prompt, where the candidate is a pair. `excluded` says why it could not
    be taken at all.
    """

    replica: str
    prefill: str | None
    value: float
    parts: Mapping[str, float] = {}
    excluded: str = ""


class RoutingPolicy(Protocol):
    """Picks where requests of one model go."""

    @property
    def uses_prefixes(self) -> bool:
        """Whether `cached` and `chain` of its requests must be filled in, which costs a lookup."""
        ...

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """Choose among at least one candidate; never awaits, and may be asked several times for one request.

        Candidates of the roles prefill and decode are only ever taken as a pair. Raises NoCandidate when there are
        such alone, without partners, and BetterWait, of a request that may wait.
        """
        ...

    def observe(self, report: Report) -> None:
        """Take note of what happened."""
        ...

    def explain(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> list[Score]:
        """What `pick` would weigh now, one score for each candidate or pair, the best first. Changes nothing."""
        ...


class BetterWait(Exception):
    """The request had better wait, and be asked about again when a replica has reported."""


class NoCandidate(Exception):
    """There are candidates, but none that could serve a whole request."""


def colocated(candidates: Sequence[ReplicaView]) -> Sequence[ReplicaView]:
    """The candidates that run whole requests. Raises NoCandidate when there are none."""
    if all(view.role is Role.BOTH for view in candidates):
        return candidates
    both = [view for view in candidates if view.role is Role.BOTH]
    if not both:
        raise NoCandidate("only prefill or decode replicas are there, and this policy does not pair them")
    return both
