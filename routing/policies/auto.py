"""The default policy: least predicted seconds over replicas and pairs, for the request and for those that it delays.

A candidate's cost is the sum of its parts:

- wait: until the prompts before it are computed;
- compute: its own prompt, less what the KV cache holds, beside the answers that run there;
- crowding: how much that delays requests that arrive meanwhile: the replica's share of the arrival rate times the time
  for which they find it busy. It weighs work against waiting: next to nothing in a fleet at rest, and much in a busy
  one, where a cached prefix is worth a wait;
- decode: the answer's steps, in a batch enlarged by it;
- interference: running answers stand still while the prompt is computed and go slower after it.

Times come from a model per class of replicas that is learned from the engines' steps (routing/estimates), so that
shapes need no tuning. Among candidates that keep the pace of running answers (routing/estimates/pacing.py) the cheapest
wins; where the cheapest of all would not keep it, a request that may wait does so for a while.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import nlargest
from math import exp, inf
from typing import ClassVar, Final

import msgspec

from protos.types import Role, Work
from routing.contracts.policy import (
    BetterWait,
    Decision,
    Ended,
    Left,
    NoCandidate,
    ReplicaView,
    Report,
    Routed,
    RouteRequest,
    Score,
    Stepped,
)
from routing.contracts.policy_settings import PolicySettings
from routing.estimates.pacing import Pacing, has_room
from routing.estimates.replica_class import ReplicaClass, ReplicaClasses
from routing.estimates.silent_steps import is_silent, steps_of

#: Seconds over which the arrival rate is averaged.
RATE_SECONDS: Final = 10.0
_ONE_ARRIVAL: Final = 1.0 / RATE_SECONDS
#: Weight of a second of decoding relative to one before the first token, when there is nothing to read.
DECODE_WEIGHT: Final = 0.05
#: Multiple of the least cost up to which a ready candidate is taken at once instead of waiting.
WORTH: Final = 1.5
#: Share of the target TTFT for which a request of the highest tier waits for a better place; lower tiers wait longer.
PATIENCE: Final = 0.5
#: Share of the target TPOT that running answers may lose per target TTFT that a request is late, and the greatest
#: lateness that counts, in target TTFTs.
STRAIN, MOST_LATE = 0.5, 4.0
#: Seconds to transfer a prompt token's KV from prefill to decode: 64 KiB at 64 GB/s.
HANDOFF_TOKEN_SECONDS: Final = 1e-6
#: Candidates that are compared for one request, besides as many that hold most of its prefix. In larger fleets each
#: request sees another part: the best of this many is hardly worse than the best of hundreds.
MOST_CANDIDATES: Final = 64
MOST_HOLDERS: Final = 16
#: Picks between updates of the fleet's speed.
SPEED_PICKS: Final = 32
PARTS: Final = ("wait", "compute", "crowding", "decode", "interference")
CHEAPEST, KEEPS_PACE, NONE_KEEPS_PACE = "least predicted seconds", "least that keeps the pace", "none keeps the pace"

_Parts = tuple[float, float, float, float, float]
_PartsOf = Callable[["Standing", RouteRequest, float], _Parts]


class Auto:
    """Keeps the classes' step times, the replicas' pace and the arrival rate; nothing of single requests."""

    uses_prefixes: ClassVar[bool] = True
    steps_suffice: ClassVar[bool] = True

    def __init__(self, settings: PolicySettings) -> None:
        self._targets = settings.targets
        #: A request that is no later than this, in seconds, is not late, however short its prompt.
        self._in_time = settings.targets.first_token(0)
        self._classes = ReplicaClasses()
        self._pacing = Pacing(settings.targets.tpot)
        self._rate = 0.0
        self._rate_at = 0.0
        self._speed = 1.0
        self._speed_of = 0
        self._picks = 0
        #: By replica id, with the step times of now.
        self._standings: dict[str, Standing] = {}

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """Return the cheapest unit that keeps the pace, or the cheapest. Raises NoCandidate and BetterWait."""
        self._picks += 1
        if len(candidates) == 1:
            view = candidates[0]
            if view.role is Role.BOTH:
                return self._take(request, view, candidates)
        crowd = self._crowd(request, candidates)
        if len(candidates) > MOST_CANDIDATES:
            candidates = self._some_of(candidates, request)
        both = [view for view in candidates if view.role is Role.BOTH]
        pair = self._cheapest_pair(candidates, request, crowd) if len(both) < len(candidates) else None
        return self._decide(request, self._cheapest(both, single_parts, request, crowd), pair)

    def _take(self, request: RouteRequest, view: ReplicaView, candidates: Sequence[ReplicaView]) -> Decision:
        """Return the decision for an only candidate, whose cost need not be known. Raises BetterWait."""
        if self._speed_of != 1 or self._picks % SPEED_PICKS == 1:
            self._measure_speed(candidates)
        replicas = self._classes.of(view)
        if self._pacing.ready(view, replicas, request, self._strain(request)):
            reason = CHEAPEST
        elif request.may_wait:
            raise BetterWait
        else:
            reason = NONE_KEEPS_PACE
        return Decision(view, None, reason, FirstToken(view, replicas, request))

    def _standing(self, view: ReplicaView) -> "Standing":
        known = self._standings.get(view.id)
        if known is None or known.view is not view:
            known = self._standings[view.id] = standing_of(view, self._classes.of(view))
        return known

    def _cheapest_pair(self, candidates: Sequence[ReplicaView], request: RouteRequest, crowd: float) -> "Pair | None":
        """Return the cheapest pair; None where one side is missing."""
        prefills = [view for view in candidates if view.role is Role.PREFILL]
        decodes = [view for view in candidates if view.role is Role.DECODE]
        if not prefills or not decodes:
            return None
        before = self._cheapest(prefills, prefill_parts, request, crowd)
        return Pair(before, self._cheapest(decodes, decode_parts, request, crowd))

    def _cheapest(
        self, views: Sequence[ReplicaView], parts: _PartsOf, request: RouteRequest, crowd: float
    ) -> "Cheapest":
        """Return the cheapest of all and the cheapest that is ready."""
        standings, ready, strain = self._standings, self._pacing.ready, self._strain(request)
        least = least_ready = inf
        best: ReplicaView | None = None
        best_ready: ReplicaView | None = None
        for view in views:
            standing = standings.get(view.id)
            if standing is None or standing.view is not view:
                standing = self._standing(view)
            value = sum(parts(standing, request, crowd))
            if value < least_ready:
                if value < least:
                    least, best = value, view
                if ready(view, standing.replicas, request, strain):
                    least_ready, best_ready = value, view
        return Cheapest(least, best, least_ready, best_ready)

    def _decide(self, request: RouteRequest, single: "Cheapest", pair: "Pair | None") -> Decision:
        """Decide between the cheapest replica and the cheapest pair, of all and of those that are ready."""
        least, least_ready = single.value, single.value_ready
        if pair is not None:
            least, least_ready = min(least, pair.value), min(least_ready, pair.value_ready)
        if least == inf:
            raise NoCandidate("there are prefill or decode replicas, but no pair of both")
        worse = least_ready > least
        much_worse = least_ready == inf or (least_ready > WORTH * least and self._patient(request))
        if worse and much_worse and request.may_wait:
            raise BetterWait
        if least_ready == inf:
            if single.view is not None and (pair is None or single.value <= pair.value):
                return self._decision(request, single.view, None, NONE_KEEPS_PACE)
            assert pair is not None and pair.after.view is not None
            return self._decision(request, pair.after.view, pair.before.view, NONE_KEEPS_PACE)
        reason = KEEPS_PACE if worse else CHEAPEST
        if single.ready is not None and (pair is None or single.value_ready <= pair.value_ready):
            return self._decision(request, single.ready, None, reason)
        assert pair is not None and pair.after.ready is not None
        return self._decision(request, pair.after.ready, pair.before.ready, reason)

    def _decision(
        self, request: RouteRequest, replica: ReplicaView, prefill: ReplicaView | None, reason: str
    ) -> Decision:
        entry = prefill or replica
        return Decision(replica, prefill, reason, FirstToken(entry, self._classes.of(entry), request))

    def observe(self, report: Report) -> None:
        """Learn step times, the replicas' pace and the arrival rate."""
        if isinstance(report, Routed):
            now, before = report.request.now, self._rate_at
            if now > before:
                self._rate_at = now
                self._rate = self._rate * exp((before - now) / RATE_SECONDS) + _ONE_ARRIVAL
            else:
                self._rate += _ONE_ARRIVAL
        elif isinstance(report, Stepped):
            self._learn(report.view, report.work)
            self._pacing.stepped(report.view, report.work)
        elif isinstance(report, Ended):
            if is_silent(report.decision.replica):  # of no other they need come
                for work in steps_of(report):
                    self._learn(report.decision.replica, work)
        elif isinstance(report, Left):
            self._classes.left(report.replica_id)
            self._pacing.left(report.replica_id)
            self._standings.pop(report.replica_id, None)

    def _learn(self, view: ReplicaView, work: Work) -> None:
        if self._classes.of(view).learn(work):
            self._standings = {}

    def explain(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> list[Score]:
        """Score every unit with its parts; those that would not keep the pace come last, unless none does."""
        crowd = self._crowd(request, candidates)
        scores = list(self._scores(request, candidates, crowd))
        if not scores:
            raise NoCandidate("there are prefill or decode replicas, but no pair of both")
        if all(score.excluded for score in scores):
            scores = [Score(score.replica, score.prefill, score.value, score.parts) for score in scores]
        return sorted(scores, key=lambda score: (bool(score.excluded), score.value))

    def _scores(self, request: RouteRequest, candidates: Sequence[ReplicaView], crowd: float) -> Iterator[Score]:
        of = self._standing
        prefills = [view for view in candidates if view.role is Role.PREFILL]
        for view in candidates:
            if view.role is Role.BOTH:
                yield self._score(view, None, view, single_parts(of(view), request, crowd), request)
            elif view.role is Role.DECODE:
                after = decode_parts(of(view), request, crowd)
                for prefill in prefills:
                    before = prefill_parts(of(prefill), request, crowd)
                    yield self._score(view, prefill, prefill, summed(before, after), request)

    def _score(
        self, view: ReplicaView, prefill: ReplicaView | None, entry: ReplicaView, parts: _Parts, request: RouteRequest
    ) -> Score:
        strain = self._strain(request)
        ready = self._pacing.ready(entry, self._classes.of(entry), request, strain) and (
            not prefill or has_room(view, request)
        )
        named = dict(zip(PARTS, parts, strict=True))
        held = "" if ready else "would not keep the pace"
        return Score(view.id, prefill.id if prefill else None, sum(parts), named, held)

    def _patient(self, request: RouteRequest) -> bool:
        """Whether the request may wait longer for a better place."""
        most: float = self._targets.first_token(request.prompt_tokens) * PATIENCE ** (1.0 / (1 + request.rank))
        return request.now - request.arrived < min(most, PATIENCE * (request.deadline - request.arrived))

    def _strain(self, request: RouteRequest) -> float:
        """Return the factor on the target TPOT that running answers tolerate for a late request."""
        if request.now - request.arrived <= self._in_time:
            return 1.0
        late = (request.now - request.arrived) / self._targets.first_token(request.prompt_tokens) - 1.0
        return 1.0 + STRAIN * min(max(late, 0.0), MOST_LATE)

    def _crowd(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> float:
        """Return arrivals per second over the fleet's speed in prompt tokens per second."""
        if self._picks % SPEED_PICKS == 1 or self._speed_of != len(candidates):
            self._measure_speed(candidates)
        # Assume that every worker gets as many requests as this one.
        return self._rate_now(request.now) * (candidates[0].load.workers or 1) / self._speed

    def _measure_speed(self, candidates: Sequence[ReplicaView]) -> None:
        computing = [view for view in candidates if view.role is not Role.DECODE]
        self._speed = sum(1.0 / self._classes.of(view).token_seconds for view in computing) or 1.0
        self._speed_of = len(candidates)

    def _rate_now(self, now: float) -> float:
        return self._rate * exp(min(0.0, self._rate_at - now) / RATE_SECONDS)

    def _some_of(self, candidates: Sequence[ReplicaView], request: RouteRequest) -> Sequence[ReplicaView]:
        """Return a part of a large fleet, another with each pick, plus the holders of a prefix."""
        start = self._picks * MOST_CANDIDATES % len(candidates)
        some = [*candidates[start : start + MOST_CANDIDATES]]
        some += candidates[: MOST_CANDIDATES - len(some)]
        there = {view.id for view in some}
        holders = nlargest(MOST_HOLDERS, request.cached, key=request.cached.__getitem__)
        wanted = {holder for holder in holders if holder not in there}
        if wanted:
            some += [view for view in candidates if view.id in wanted]
        kinds = {view.role for view in some}
        return some if Role.BOTH in kinds or len(kinds) > 1 else candidates


class Cheapest(msgspec.Struct, frozen=True):
    """The replica of least cost, of all and of those that are ready; None with infinite cost: there is none."""

    value: float
    view: ReplicaView | None
    value_ready: float
    ready: ReplicaView | None


class Pair(msgspec.Struct, frozen=True):
    """The cheapest replicas for prefill and for decode: their costs do not depend on each other."""

    before: Cheapest
    after: Cheapest

    @property
    def value(self) -> float:
        """Cost of the cheapest pair."""
        return self.before.value + self.after.value

    @property
    def value_ready(self) -> float:
        """Cost of the cheapest pair that is ready on both sides."""
        return self.before.value_ready + self.after.value_ready


class Standing(msgspec.Struct, frozen=True):
    """A replica's measures from its view and its class's step times; made once for all requests that see this view.

    `wait`: seconds until the prompts before a new one are computed. `first`: seconds of the decode step that gives its
    first token, 0 for a replica that computes no prompts. `running` sequences are there, and each step reads their
    context for `context_seconds`. `token_seconds` are a prompt token's, `half_pair_seconds` half of a (query, key)
    pair's.
    """

    view: ReplicaView
    replicas: ReplicaClass
    wait: float
    first: float
    running: int
    context_seconds: float
    token_seconds: float
    half_pair_seconds: float


def standing_of(view: ReplicaView, replicas: ReplicaClass) -> Standing:
    """Return a view's standing."""
    load = view.load
    return Standing(
        view,
        replicas,
        (load.prefill_tokens + view.sent_prompt_tokens) * replicas.token_seconds
        + load.prefill_pairs * replicas.pair_seconds,
        0.0 if view.role is Role.DECODE else replicas.decode(load.running + 1),
        load.running + load.waiting + view.sent,
        replicas.context_seconds * load.tokens_in_flight,
        replicas.token_seconds,
        0.5 * replicas.pair_seconds,
    )


def single_parts(standing: Standing, request: RouteRequest, crowd: float) -> _Parts:
    """Return the cost parts of a replica that computes the prompt and decodes."""
    prompt, cached, output = request.prompt_tokens, request.cached.get(standing.view.id, 0), request.expected_output
    wait, token, running, decode = standing.wait, standing.token_seconds, standing.running, standing.replicas.decode
    # As in `prefill_parts`: this is called for every candidate of a request, and a call would take a third longer.
    compute = (prompt - cached) * (token + (prompt + cached) * standing.half_pair_seconds) + standing.first
    step = decode(running + request.n)
    slower = (step - decode(running)) * output
    return (
        wait,
        compute,
        crowd * compute * (wait + compute) / token,
        DECODE_WEIGHT * output * (step + standing.context_seconds),
        DECODE_WEIGHT * running * (compute + slower),
    )


def prefill_parts(standing: Standing, request: RouteRequest, crowd: float) -> _Parts:
    """Return the cost parts of a replica that only computes the prompt."""
    prompt, cached, wait = request.prompt_tokens, request.cached.get(standing.view.id, 0), standing.wait
    token = standing.token_seconds
    compute = (prompt - cached) * (token + (prompt + cached) * standing.half_pair_seconds) + standing.first
    return wait, compute, crowd * compute * (wait + compute) / token, 0.0, 0.0


def decode_parts(standing: Standing, request: RouteRequest, crowd: float) -> _Parts:
    """Return the cost parts of a replica that decodes once another has computed the prompt."""
    del crowd  # later requests wait for no prompt here
    replicas, running, output = standing.replicas, standing.running, request.expected_output
    step = replicas.decode(running + request.n)
    slower = (step - replicas.decode(running)) * output
    decode = output * (step + standing.context_seconds)
    handoff = HANDOFF_TOKEN_SECONDS * request.prompt_tokens
    return 0.0, 0.0, 0.0, DECODE_WEIGHT * (decode + handoff), DECODE_WEIGHT * running * slower


class FirstToken(msgspec.Struct, frozen=True, eq=False):  # noqa: PLW1641 - nothing hashes it
    """Predicts the seconds to the first token of a replica that computes the prompt, by the step times of now."""

    view: ReplicaView
    replicas: ReplicaClass
    request: RouteRequest

    def __call__(self) -> float:
        wait, compute, _, _, _ = prefill_parts(standing_of(self.view, self.replicas), self.request, 0.0)
        return wait + compute

    def __eq__(self, other: object) -> bool:
        """Whether both predict the same."""
        return isinstance(other, FirstToken) and self() == other()


def summed(one: _Parts, other: _Parts) -> _Parts:
    """Add the cost parts of both sides of a pair."""
    a, b, c, d, e = one
    v, w, x, y, z = other
    return a + v, b + w, c + x, d + y, e + z
