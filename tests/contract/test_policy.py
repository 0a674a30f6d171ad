"""What every `RoutingPolicy` keeps to, whatever the fleet looks like and whatever its engines report."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtest.simulation.baselines import POLICIES
from protos.types import Role, Shape, Timing, Work
from routing.contracts.policy import (
    Decision,
    Ended,
    NoCandidate,
    ReplicaView,
    Routed,
    RouteRequest,
    RoutingPolicy,
    Stepped,
)
from routing.contracts.policy_settings import PolicySettings, Tier
from tests.views import ask, fleets, heatmap, view

SETTINGS = {
    "as_configured": PolicySettings(seed=1),
    "everything": PolicySettings(
        tiers=(Tier(frozenset({"p"}), below=8.0), Tier(frozenset({"q"}))),
        learned=True,
        heatmap=heatmap(0.5),
        long_context_tokens=100,
        seed=1,
    ),
}
configured = pytest.mark.parametrize("chosen", SETTINGS.values(), ids=SETTINGS)
#: There are two dozen of each test, whose fleets are slow to draw.
few = settings(max_examples=25)
#: Their pick is drawn or in turn, so that no score says which it will be.
BY_CHANCE = ("power_of_two", "round_robin", "paced_power_of_two", "paced_round_robin")


@st.composite
def requests(draw: st.DrawFn, fleet: Sequence[ReplicaView]) -> RouteRequest:
    """Any request, of which some of the fleet, and others, hold some."""
    prompt = draw(st.one_of(st.integers(1, 5000), st.integers(1, 2**31)))
    known = st.sampled_from([replica.id for replica in fleet] + ["gone"])
    return RouteRequest(
        "r",
        prompt,
        max_tokens=draw(st.integers(1, 2**31)),
        n=draw(st.integers(1, 128)),
        expected_output=draw(st.floats(0, 1e6)),
        cached=draw(st.dictionaries(known, st.integers(0, prompt - 1))),
        chain=draw(st.lists(st.integers(0, 5), max_size=6, unique=True)),
        now=draw(st.floats(0, 100)),
        rank=draw(st.integers(0, 3)),
    )


def valid(decision: Decision, fleet: Sequence[ReplicaView]) -> bool:
    """Whether what was picked is there and can serve: a replica that does all, or a pair."""
    if decision.prefill is None:
        return decision.replica in fleet and decision.replica.role is Role.BOTH
    return (
        decision.replica in fleet
        and decision.prefill in fleet
        and (decision.prefill.role, decision.replica.role) == (Role.PREFILL, Role.DECODE)
    )


def servable(fleet: Sequence[ReplicaView]) -> bool:
    roles = {replica.role for replica in fleet}
    return Role.BOTH in roles or roles == {Role.PREFILL, Role.DECODE}


def life(policy: RoutingPolicy, request: RouteRequest, decision: Decision) -> None:
    """All that is reported of a request that is served."""
    policy.observe(Routed(request, decision))
    work = Work(us=20_000, prefill_tokens=min(request.prompt_tokens, 8192), sequences=3, context=3000)
    policy.observe(Stepped(decision.entry, work))
    policy.observe(Stepped(decision.replica, Work(us=0)))
    timing = Timing(queue_us=10, prefill_us=20_000, decode_us=100_000)
    policy.observe(Ended(request, decision, 0, 10, 0.02, timing))


@configured
@pytest.mark.parametrize("name", sorted(POLICIES))
@few
@given(data=st.data(), sequence=st.lists(fleets(), min_size=1, max_size=4))
def test_a_pick_is_among_the_candidates(
    name: str, chosen: PolicySettings, data: st.DataObject, sequence: list[list[ReplicaView]]
) -> None:
    policy = POLICIES[name](chosen)
    for fleet in sequence:
        request = data.draw(requests(fleet))
        if not servable(fleet):
            with pytest.raises(NoCandidate):
                policy.pick(request, fleet)
            with pytest.raises(NoCandidate):
                policy.explain(request, fleet)
            continue
        decision = policy.pick(request, fleet)
        assert valid(decision, fleet)
        assert decision.reason
        assert valid(policy.pick(request, fleet), fleet)
        life(policy, request, decision)


@configured
@pytest.mark.parametrize("name", sorted(POLICIES))
@few
@given(data=st.data(), fleet=fleets().filter(servable))
def test_an_explanation_has_every_unit_once_and_the_pick_among_the_best(
    name: str, chosen: PolicySettings, data: st.DataObject, fleet: list[ReplicaView]
) -> None:
    policy = POLICIES[name](chosen)
    request = data.draw(requests(fleet))
    scores = policy.explain(request, fleet)
    again = policy.explain(request, fleet)
    assert again == scores
    assert max(Counter((score.replica, score.prefill) for score in scores).values()) == 1
    ids = {replica.id for replica in fleet if replica.role is not Role.PREFILL}
    assert {score.replica for score in scores} <= ids
    assert [bool(score.excluded) for score in scores] == sorted(bool(score.excluded) for score in scores)
    decision = policy.pick(request, fleet)
    picked = next(
        score
        for score in scores
        if (score.replica, score.prefill) == (decision.replica.id, decision.prefill and decision.prefill.id)
    )
    assert not picked.excluded
    if name not in BY_CHANCE:
        assert picked.value == scores[0].value


@configured
@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_score_says_what_it_is_made_of(name: str, chosen: PolicySettings) -> None:
    fleet = [view("a", tp=8, running=3), view("b", tp=2, prefill_tokens=9000)]
    for score in POLICIES[name](chosen).explain(ask(cached={"b": 900}, chain=(1, 2)), fleet):
        assert score.parts or score.excluded or name.removeprefix("paced_") == "round_robin"


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_equal_replicas_share_evenly(name: str) -> None:
    fleet = [view(f"r{number}", tp=4) for number in range(4)]
    policy = POLICIES[name](PolicySettings(seed=1, heatmap=heatmap(0.5)))
    picks: Counter[str] = Counter()
    for number in range(400):
        decision = policy.pick(ask(request_id=str(number)), fleet)
        policy.observe(Routed(ask(request_id=str(number)), decision))
        picks[decision.replica.id] += 1
    assert min(picks.values()) > 60


@configured
@pytest.mark.parametrize("name", sorted(POLICIES))
def test_pairs_alone_serve(name: str, chosen: PolicySettings) -> None:
    fleet = [
        view("p0", role=Role.PREFILL, tp=4),
        view("p1", role=Role.PREFILL, tp=4),
        view("d0", role=Role.DECODE, tp=4),
    ]
    policy = POLICIES[name](chosen)
    for number in range(8):
        decision = policy.pick(ask(prompt=20_000 if number % 2 else 50), fleet)
        assert valid(decision, fleet)
        assert decision.prefill is not None
        life(policy, ask(), decision)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_the_same_seed_makes_the_same_picks(name: str) -> None:
    fleet = [view(f"r{number}", tp=2 ** (number % 3), running=number) for number in range(8)]
    runs = []
    for _ in range(2):
        policy = POLICIES[name](PolicySettings(seed=7, learned=True))
        picks = []
        for number in range(200):
            request = ask(request_id=str(number), now=float(number))
            decision = policy.pick(request, fleet)
            life(policy, request, decision)
            picks.append(decision.replica.id)
        runs.append(picks)
    assert runs[0] == runs[1]


def test_a_fleet_of_one_shape_with_pairs_of_it_can_be_weighed() -> None:
    # The shapes of the contract's heatmap are those that a policy looks up.
    assert heatmap(0.5).gain(Shape(tp=4), Shape(tp=4), Shape(tp=4), 1000, 100) == 5.0
