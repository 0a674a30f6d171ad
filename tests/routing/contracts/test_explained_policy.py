import json
from collections.abc import Sequence

import msgspec
import pytest

from protos.types import Load, Role, Shape, Timing
from routing.contracts.explained_policy import NO_ROOM, NOT_CONSIDERED, TRIED, UNSENT, ExplainedPolicy
from routing.contracts.explanation import Candidate, Place, RouteExplanation, brief
from routing.contracts.policy import (
    Decision,
    Ended,
    NoCandidate,
    ReplicaView,
    Report,
    Routed,
    RouteRequest,
    RoutingPolicy,
    Score,
)
from routing.policies.least_load import LeastLoad
from routing.policies.round_robin import RoundRobin

REQUEST = RouteRequest("req_1", prompt_tokens=100, max_tokens=10, expected_output=8.0, cached={"a": 64, "p": 32})


def view(name: str, running: int = 0, role: Role = Role.BOTH) -> ReplicaView:
    return ReplicaView(name, "pool", Shape(tp=2), role, Load(running=running))


def explained(policy: RoutingPolicy) -> ExplainedPolicy:
    return ExplainedPolicy(policy, model="m", name="n")


def routed(policy: ExplainedPolicy, *views: ReplicaView) -> Decision:
    decision = policy.pick(REQUEST, views)
    policy.observe(Routed(REQUEST, decision))
    return decision


def over(policy: ExplainedPolicy, decision: Decision) -> None:
    policy.observe(Ended(REQUEST, decision, 0, 0, None, Timing()))


def told(policy: ExplainedPolicy) -> RouteExplanation:
    explanation = policy.explanation()
    assert explanation is not None
    return explanation


class Pairing(RoundRobin):
    """Predicts, pairs, and says that it cannot take one."""

    seen: list[Report]

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        return Decision(candidates[0], candidates[1], "the only pair", 0.25)

    def explain(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> list[Score]:
        return [
            Score("x", None, float("inf"), excluded="too small"),
            Score(candidates[0].id, candidates[1].id, 0.5, {"wait": 0.25, "compute": 0.25}),
            Score("y", None, float("nan")),
        ]


class Foretelling(RoundRobin):
    """Predicts what it knows when it is asked."""

    known = 0.25

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        return Decision(candidates[0], None, "the first", lambda: self.known)


def test_a_prediction_is_of_the_moment_of_the_decision() -> None:
    inner = Foretelling()
    policy = explained(inner)
    decision = routed(policy, view("a"))
    inner.known = 0.5
    assert (told(policy).expected_ttft_seconds, decision.expected_ttft) == (0.25, 0.5)


def test_nothing_is_known_before_a_decision() -> None:
    policy = explained(LeastLoad())
    assert policy.explanation() is None
    with pytest.raises(NoCandidate):
        policy.pick(REQUEST, [view("p", role=Role.PREFILL)])
    assert policy.explanation() is None


def test_it_decides_as_the_policy_does() -> None:
    one, other = RoundRobin(), explained(RoundRobin())
    views = [view(name) for name in "abc"]
    for _ in range(7):
        assert other.pick(REQUEST, views) == one.pick(REQUEST, views)
    assert other.explain(REQUEST, views) == one.explain(REQUEST, views)
    assert not other.uses_prefixes


def test_scores_are_of_the_moment_before_the_decision() -> None:
    policy = explained(RoundRobin())
    for name in "abca":
        assert routed(policy, *(view(each) for each in "abc")).replica.id == name
        said = told(policy)
        assert (said.replica, said.candidates[0].replica, said.candidates[0].value) == (name, name, 0.0)


def test_all_of_a_decision_is_told() -> None:
    policy = explained(Pairing())
    policy.begin(REQUEST, 2, lambda: {"d": "never asked", "q": "draining", "r": ""})
    routed(policy, view("d"), view("p"))
    assert told(policy) == RouteExplanation(
        request_id="req_1",
        model="m",
        policy="n",
        prompt_tokens=100,
        max_tokens=10,
        expected_output_tokens=8.0,
        waiting=2,
        reason="the only pair",
        replica="d",
        prefill="p",
        cached_tokens=32,
        expected_ttft_seconds=0.25,
        candidates=(
            Candidate("d", "p", 0.5, {"wait": 0.25, "compute": 0.25}, cached_tokens=32),
            Candidate("y"),
            Candidate("x", excluded="too small"),
            Candidate("r", excluded=NOT_CONSIDERED),
            Candidate("q", excluded="draining"),
        ),
    )
    encoded = msgspec.json.encode(told(policy))
    assert msgspec.json.decode(encoded, type=RouteExplanation) == told(policy)
    assert json.loads(brief(told(policy)))["prefill"] == "p"


def test_a_retry_tells_where_the_request_was_before() -> None:
    policy = explained(LeastLoad())
    policy.begin(REQUEST, 0, lambda: {"a": "", "b": ""})
    first = routed(policy, view("a"), view("b", running=9))
    assert (told(policy).replica, told(policy).cached_tokens, told(policy).earlier) == ("a", 64, ())
    over(policy, first)
    second = routed(policy, view("b", running=9))
    over(policy, second)
    said = told(policy)
    assert (said.replica, said.earlier) == ("b", (Place("a"),))
    assert said.candidates[-1] == Candidate("a", cached_tokens=64, excluded=TRIED)


@pytest.mark.parametrize(("wins", "earlier"), [(0, ()), (1, (Place("a"),))])
def test_of_rivals_the_one_that_goes_on_is_told(wins: int, earlier: tuple[Place, ...]) -> None:
    policy = explained(LeastLoad())
    decisions = [routed(policy, view("a")), routed(policy, view("b"))]
    over(policy, decisions[1 - wins])
    assert (told(policy).replica, told(policy).earlier) == ("ab"[wins], earlier)
    over(policy, decisions[wins])
    assert (told(policy).replica, told(policy).earlier) == ("ab"[wins], earlier)


def test_a_decision_of_somebody_else_is_told_without_scores() -> None:
    policy = explained(LeastLoad())
    policy.pick(REQUEST, [view("a")])
    policy.observe(Routed(REQUEST, Decision(view("b"), reason="taken over")))
    assert (told(policy).replica, told(policy).reason, told(policy).candidates) == ("b", "taken over", ())


def test_what_is_sent_nowhere() -> None:
    policy = explained(LeastLoad())
    policy.begin(REQUEST, 5, lambda: {"a": "no free slots", "b": "draining"})
    said = told(policy)
    assert (said.replica, said.reason, said.waiting, said.expected_ttft_seconds) == (None, UNSENT, 5, None)
    assert said.candidates == (
        Candidate("b", excluded="draining"),
        Candidate("a", cached_tokens=64, excluded="no free slots"),
    )
    policy.pick(REQUEST, [view("a")])
    assert told(policy) == said, "a pick that is not followed is no decision"


def test_what_is_only_considered() -> None:
    policy = explained(LeastLoad())
    policy.begin(REQUEST, 0, lambda: {"a": "", "b": "draining"})
    assert policy.considered(REQUEST, None).reason == NO_ROOM
    decision = policy.pick(REQUEST, [view("a")])
    said = policy.considered(REQUEST, decision)
    assert (said.replica, said.reason, said.cached_tokens) == ("a", "least loaded", 64)
    assert [candidate.excluded for candidate in said.candidates] == ["", "draining"]
    assert policy.considered(REQUEST, None).replica is None
