"""The RoutingPolicy protocol and its types: decisions are pure functions over a snapshot of replicas.

A policy learns from `observe` alone and reads no clock: the request carries the time.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from protos.features import Feature
from protos.types import Load, Role, Shape, Timing, Work


class ReplicaView(msgspec.Struct, frozen=True):
    """One replica as a decision sees it.

    `load` is the engine's last report and covers all workers. What this worker sent and no report includes yet comes
    on top: `sent` sequences, the prompt tokens to compute for them, and the KV tokens they will hold. A size of 0 is
    unknown. `features` are the bits of protos/features.py, as a plain number for speed, and `adapters` the LoRA
    adapters that are loaded now.
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
    """A request as decisions see it.

    `n` sequences share the prompt and are expected to have `expected_output` tokens each. `cached` maps replica ids
    to the prompt tokens believed to be in their caches; a replica that is absent holds none. `chain` are the prefix
    hashes of the prompt's full blocks (protos/prefix_hash.py), empty where the policy does not use them.
    `arrived`, `now` and `deadline` are seconds on one monotonic clock; `rank` is the tenant's tier, 0 for the highest.
    With `may_wait` a policy may raise BetterWait; it is called again soon. `needs` are the features
    (protos/features.py) that a replica must have and `adapter` is the LoRA adapter, if any; candidates are filtered by
    both before a policy sees them.
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
    """The chosen replica; `prefill`, if set, computes the prompt first.

    `reason` is a short constant for people; `ttft` are the predicted seconds to the first token, or what predicts them:
    few decisions are explained. None: the policy predicts none.
    """

    replica: ReplicaView
    prefill: ReplicaView | None = None
    reason: str = ""
    ttft: float | Callable[[], float] | None = None

    @property
    def expected_ttft(self) -> float | None:
        """The predicted seconds to the first token, by what the policy knows now; None where it predicts none."""
        return self.ttft() if callable(self.ttft) else self.ttft

    @property
    def entry(self) -> ReplicaView:
        """The replica that gets the request first and computes its prompt."""
        return self.prefill or self.replica


class Routed(msgspec.Struct, frozen=True):
    """Report: a request was sent where a decision said."""

    request: RouteRequest
    decision: Decision


class Stepped(msgspec.Struct, frozen=True):
    """Report: a replica's engine has completed a step."""

    view: ReplicaView
    work: Work


class Ended(msgspec.Struct, frozen=True):
    """Report: a request has ended. `ttft` and `seconds` (its whole duration) count from `Routed`; `ttft` is None if no
    token came.
    """

    request: RouteRequest
    decision: Decision
    cached_tokens: int
    output_tokens: int
    ttft: float | None
    timing: Timing
    seconds: float = 0.0


class Left(msgspec.Struct, frozen=True):
    """Report: a replica is gone for good, or has another shape from now on, so its state can be dropped.

    Another of the same id may join.
    """

    replica_id: str


#: The reports that a policy learns from, in the order in which they happen.
Report = Routed | Stepped | Ended | Left


class Score(msgspec.Struct, frozen=True):
    """The value of a candidate (the least wins) and its parts.

    `prefill` is the partner that computes the prompt, where the candidate is a pair. `excluded` is the reason why it
    could not be taken.
    """

    replica: str
    prefill: str | None
    value: float
    parts: Mapping[str, float] = {}
    excluded: str = ""


class RoutingPolicy(Protocol):
    """Chooses replicas for the requests of one model."""

    @property
    def uses_prefixes(self) -> bool:
        """Whether its requests need `cached` and `chain`, which cost a lookup."""
        ...

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """Choose among at least one candidate; never awaits, may be called several times for one request.

        Candidates of the roles prefill and decode are only taken as a pair. Raises NoCandidate when only such without
        partners are left, and BetterWait for a request that may wait.
        """
        ...

    def observe(self, report: Report) -> None:
        """Learn from a report."""
        ...

    def explain(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> list[Score]:
        """Return the scores that `pick` would compare, one per candidate or pair, the best first. Changes nothing."""
        ...


class Unlearning:
    """The base of policies that do not learn: their reports need not be made."""

    def observe(self, report: Report) -> None:
        """Ignore the report."""


def learns(policy: RoutingPolicy) -> bool:
    """Whether a policy does anything with reports."""
    return getattr(policy.observe, "__func__", None) is not Unlearning.observe


def learns_from_ends(policy: RoutingPolicy) -> bool:
    """Whether a policy does anything with the ends of requests to replicas whose engines report their steps.

    It does unless it says by `steps_suffice` that it does not.
    """
    return not getattr(policy, "steps_suffice", False)


class BetterWait(Exception):
    """The request should wait until a replica has reported and be picked again then."""


class NoCandidate(Exception):
    """None of the candidates could serve a whole request."""


def colocated(candidates: Sequence[ReplicaView]) -> Sequence[ReplicaView]:
    """Return the candidates that run whole requests. Raises NoCandidate when there are none."""
    if all(view.role is Role.BOTH for view in candidates):
        return candidates
    both = [view for view in candidates if view.role is Role.BOTH]
    if not both:
        raise NoCandidate("only prefill or decode replicas are there, and this policy does not pair them")
    return both
