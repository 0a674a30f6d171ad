"""Wraps a policy for one request that asked for an explanation: it decides the same and records what it weighed."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from routing.contracts.explanation import Candidate, Place, RouteExplanation
from routing.contracts.policy import Decision, Ended, ReplicaView, Report, Routed, RouteRequest, RoutingPolicy, Score

#: The reason shown for replicas that were not passed to the policy, where no better one is known.
NOT_CONSIDERED = "not considered"
TRIED = "tried before"
#: The reason shown where no decision was followed.
UNSENT = "it was sent to no replica"
NO_ROOM = "no replica can take it now"


class _Note(msgspec.Struct, frozen=True):
    """A decision with the scores and exclusions that it was made from, and the first token's time as predicted then."""

    request: RouteRequest
    decision: Decision
    expected_ttft: float | None
    candidates: tuple[Candidate, ...] = ()


class ExplainedPolicy:
    """Records the decisions for one request, each with the scores just before it."""

    def __init__(
        self, policy: RoutingPolicy, *, model: str, name: str, version_of: Callable[[int], str] = lambda needs: ""
    ) -> None:
        """`model` and `name` (of the policy) appear in the explanation, and the version among a request's needs, as
        `version_of` gives it.
        """
        self._policy = policy
        self._model = model
        self._name = name
        self._version_of = version_of
        self._request: RouteRequest | None = None
        self._waiting = 0
        self._left_out: Callable[[], Mapping[str, str]] = dict
        self._picked: _Note | None = None
        #: The decisions that were followed, and those still under way: two at a time where one is a hedge.
        self._followed: list[_Note] = []
        self._under_way: list[_Note] = []
        self._current: _Note | None = None

    def begin(self, request: RouteRequest, waiting: int, left_out: Callable[[], Mapping[str, str]]) -> None:
        """Prepare for a request's decision while `waiting` others wait for admission.

        `left_out` returns why each replica is no candidate now, by id, as far as that is known; entries for candidates
        are ignored.
        """
        self._request, self._waiting, self._left_out = request, waiting, left_out

    @property
    def uses_prefixes(self) -> bool:
        return self._policy.uses_prefixes

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """Return the policy's pick and record it. Raises NoCandidate."""
        # Before `pick`: it advances policies that rotate.
        scores = self._policy.explain(request, candidates)
        decision = self._policy.pick(request, candidates)
        asked = {view.id for view in candidates}
        excluded = {replica: why for replica, why in self._left_out().items() if replica not in asked}
        for note in self._followed:
            places = (note.decision.replica, note.decision.entry)
            excluded |= {view.id: TRIED for view in places if view.id not in asked}
        weighed = (*_weighed(request, scores), *_excluded(request, excluded))
        self._picked = _Note(request, decision, decision.expected_ttft, weighed)
        return decision

    def observe(self, report: Report) -> None:
        """Pass the report on; record where the request is sent."""
        if isinstance(report, Routed):
            note = self._picked
            if note is None or note.decision is not report.decision:
                note = _Note(report.request, report.decision, report.decision.expected_ttft)
            self._followed.append(note)
            self._under_way.append(note)
            self._current = note
        elif isinstance(report, Ended):
            self._under_way = [note for note in self._under_way if note.decision is not report.decision]
            if self._under_way:
                self._current = self._under_way[-1]
        self._policy.observe(report)

    def explain(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> list[Score]:
        return self._policy.explain(request, candidates)

    def explanation(self) -> RouteExplanation | None:
        """Explain the last decision followed; None before `begin`."""
        if self._current is not None:
            return self._decided(self._current)
        return None if self._request is None else self._undecided(self._request, UNSENT)

    def considered(self, request: RouteRequest, decision: Decision | None) -> RouteExplanation:
        """Explain the last pick, `decision`, without following it; None: there was no candidate."""
        if decision is None or self._picked is None:
            return self._undecided(request, NO_ROOM)
        return self._decided(self._picked)

    def _decided(self, note: _Note) -> RouteExplanation:
        at = next((at for at, followed in enumerate(self._followed) if followed is note), len(self._followed))
        decision = note.decision
        place = _place(decision)
        return msgspec.structs.replace(
            self._blank(note.request),
            reason=decision.reason,
            replica=place.replica,
            prefill=place.prefill,
            cached_tokens=note.request.cached.get(decision.entry.id, 0),
            expected_ttft_seconds=note.expected_ttft,
            candidates=note.candidates,
            earlier=tuple(_place(before.decision) for before in self._followed[:at]),
        )

    def _undecided(self, request: RouteRequest, reason: str) -> RouteExplanation:
        excluded = tuple(_excluded(request, self._left_out()))
        return msgspec.structs.replace(self._blank(request), reason=reason, candidates=excluded)

    def _blank(self, request: RouteRequest) -> RouteExplanation:
        """Return an explanation without a decision: only what is known of the request."""
        return RouteExplanation(
            request_id=request.request_id,
            model=self._model,
            policy=self._name,
            prompt_tokens=request.prompt_tokens,
            max_tokens=request.max_tokens,
            expected_output_tokens=request.expected_output,
            waiting=self._waiting,
            version=self._version_of(request.needs),
        )


def _place(decision: Decision) -> Place:
    return Place(decision.replica.id, decision.prefill.id if decision.prefill else None)


def _weighed(request: RouteRequest, scores: Iterable[Score]) -> Iterator[Candidate]:
    """Yield the policy's candidates in its order, the excluded ones last."""
    for score in sorted(scores, key=lambda score: bool(score.excluded)):
        cached = request.cached.get(score.prefill or score.replica, 0)
        value = score.value if math.isfinite(score.value) and not score.excluded else None
        yield Candidate(score.replica, score.prefill, value, score.parts, cached, score.excluded)


def _excluded(request: RouteRequest, why_not: Mapping[str, str]) -> Iterator[Candidate]:
    """Yield the replicas that were not passed to the policy, grouped by reason."""
    for replica, why in sorted(why_not.items(), key=lambda item: item[1]):
        yield Candidate(replica, cached_tokens=request.cached.get(replica, 0), excluded=why or NOT_CONSIDERED)
