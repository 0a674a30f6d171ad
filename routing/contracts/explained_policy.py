"""A policy as one request meets it whose owner asked why: it decides the same, and notes what it weighed."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from routing.contracts.explanation import Candidate, Place, RouteExplanation
from routing.contracts.policy import Decision, Ended, ReplicaView, Report, Routed, RouteRequest, RoutingPolicy, Score

#: Of replicas that the policy was not asked about, where nobody says more.
NOT_CONSIDERED = "not considered"
TRIED = "tried before"
#: Why there is no decision to tell.
UNSENT = "it was sent to no replica"
NO_ROOM = "no replica can take it now"


class _Note(msgspec.Struct, frozen=True):
    """A decision and what it was made among."""

    request: RouteRequest
    decision: Decision
    candidates: tuple[Candidate, ...] = ()


class ExplainedPolicy:
    """Notes the decisions for one request, each with the scores of the moment just before it."""

    def __init__(self, policy: RoutingPolicy, *, model: str, name: str) -> None:
        """`model` and `name`, the policy's, are for the explanation."""
        self._policy = policy
        self._model = model
        self._name = name
        self._request: RouteRequest | None = None
        self._waiting = 0
        self._left_out: Callable[[], Mapping[str, str]] = dict
        self._picked: _Note | None = None
        #: What was followed, and what of that is under way: two at a time where one is a hedge.
        self._followed: list[_Note] = []
        self._under_way: list[_Note] = []
        self._current: _Note | None = None

    def begin(self, request: RouteRequest, waiting: int, left_out: Callable[[], Mapping[str, str]]) -> None:
        """The request is about to be decided; `waiting` others wait for their turn.

        `left_out` gives replicas by id and why each is none of the candidates now, as far as is known; what it says of
        those that are candidates does not matter.
        """
        self._request, self._waiting, self._left_out = request, waiting, left_out

    @property
    def uses_prefixes(self) -> bool:
        """As the policy itself."""
        return self._policy.uses_prefixes

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """What the policy picks. Raises NoCandidate."""
        # Before it is asked: some take turns.
        scores = self._policy.explain(request, candidates)
        decision = self._policy.pick(request, candidates)
        asked = {view.id for view in candidates}
        excluded = {replica: why for replica, why in self._left_out().items() if replica not in asked}
        for note in self._followed:
            places = (note.decision.replica, note.decision.entry)
            excluded |= {view.id: TRIED for view in places if view.id not in asked}
        self._picked = _Note(request, decision, (*_weighed(request, scores), *_excluded(request, excluded)))
        return decision

    def observe(self, report: Report) -> None:
        """As the policy itself; where the request is sent is noted."""
        if isinstance(report, Routed):
            note = self._picked
            if note is None or note.decision is not report.decision:
                note = _Note(report.request, report.decision)
            self._followed.append(note)
            self._under_way.append(note)
            self._current = note
        elif isinstance(report, Ended):
            self._under_way = [note for note in self._under_way if note.decision is not report.decision]
            if self._under_way:
                self._current = self._under_way[-1]
        self._policy.observe(report)

    def explain(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> list[Score]:
        """As the policy itself."""
        return self._policy.explain(request, candidates)

    def explanation(self) -> RouteExplanation | None:
        """Why the request is where it is, or was last; None before `begin`."""
        if self._current is not None:
            return self._decided(self._current)
        return None if self._request is None else self._undecided(self._request, UNSENT)

    def considered(self, request: RouteRequest, decision: Decision | None) -> RouteExplanation:
        """Why it would go where `decision`, the last pick, says; or nowhere, where that is None."""
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
            expected_ttft_seconds=decision.expected_ttft,
            candidates=note.candidates,
            earlier=tuple(_place(before.decision) for before in self._followed[:at]),
        )

    def _undecided(self, request: RouteRequest, reason: str) -> RouteExplanation:
        excluded = tuple(_excluded(request, self._left_out()))
        return msgspec.structs.replace(self._blank(request), reason=reason, candidates=excluded)

    def _blank(self, request: RouteRequest) -> RouteExplanation:
        """What is known of the request without a decision."""
        return RouteExplanation(
            request_id=request.request_id,
            model=self._model,
            policy=self._name,
            prompt_tokens=request.prompt_tokens,
            max_tokens=request.max_tokens,
            expected_output_tokens=request.expected_output,
            waiting=self._waiting,
        )


def _place(decision: Decision) -> Place:
    return Place(decision.replica.id, decision.prefill.id if decision.prefill else None)


def _weighed(request: RouteRequest, scores: Iterable[Score]) -> Iterator[Candidate]:
    """What the policy made of its candidates; what it could not take comes last."""
    for score in sorted(scores, key=lambda score: bool(score.excluded)):
        cached = request.cached.get(score.prefill or score.replica, 0)
        value = score.value if math.isfinite(score.value) and not score.excluded else None
        yield Candidate(score.replica, score.prefill, value, score.parts, cached, score.excluded)


def _excluded(request: RouteRequest, why_not: Mapping[str, str]) -> Iterator[Candidate]:
    """Replicas that it was not asked about, those of one reason together."""
    for replica, why in sorted(why_not.items(), key=lambda item: item[1]):
        yield Candidate(replica, cached_tokens=request.cached.get(replica, 0), excluded=why or NOT_CONSIDERED)
