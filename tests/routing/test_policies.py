from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.types import Load, Role, Shape
from routing.policies import POLICIES
from routing.policies.least_load import LeastLoad, pressure
from routing.policies.round_robin import RoundRobin
from routing.policy import ReplicaView, RouteRequest

REQUEST = RouteRequest("r", prompt_tokens=100, max_tokens=10)
COUNTS = st.integers(0, 1000)
LOADS = st.builds(
    Load,
    running=COUNTS,
    waiting=COUNTS,
    kv_blocks_used=COUNTS,
    kv_blocks_total=COUNTS,
    tokens_in_flight=COUNTS,
    prefill_tokens=st.integers(0, 50_000),
)
VIEWS = st.builds(
    ReplicaView,
    id=st.text("abc/0", min_size=1, max_size=4),
    pool=st.just("p"),
    shape=st.builds(Shape, tp=st.sampled_from([1, 2, 4, 8]), ep=st.sampled_from([1, 2]), pp=st.sampled_from([1, 2])),
    role=st.just(Role.BOTH),
    load=LOADS,
    sent=COUNTS,
    sent_prompt_tokens=st.integers(0, 50_000),
    max_num_tokens=st.sampled_from([0, 2048, 8192]),
)
FLEETS = st.lists(VIEWS, min_size=1, max_size=6, unique_by=lambda view: view.id)


def view(
    name: str, *, sent: int = 0, tp: int = 1, used: int = 0, prompts: int = 0, budget: int = 8192, **load: int
) -> ReplicaView:
    report = Load(kv_blocks_used=used, kv_blocks_total=100, **load)  # type: ignore[arg-type]
    return ReplicaView(
        name, "p", Shape(tp=tp), Role.BOTH, report, sent, sent_prompt_tokens=prompts, max_num_tokens=budget
    )


@pytest.mark.parametrize("name", sorted(POLICIES))
@given(fleets=st.lists(FLEETS, min_size=1, max_size=8))
def test_a_pick_is_one_of_the_candidates(name: str, fleets: list[list[ReplicaView]]) -> None:
    policy = POLICIES[name]()
    for fleet in fleets:
        assert policy.pick(REQUEST, fleet).replica in fleet


@given(fleet=FLEETS, rounds=st.integers(1, 5))
def test_round_robin_gives_every_replica_the_same_number(fleet: list[ReplicaView], rounds: int) -> None:
    policy = RoundRobin()
    picks = Counter(policy.pick(REQUEST, fleet).replica.id for _ in range(rounds * len(fleet)))
    assert picks == {replica.id: rounds for replica in fleet}


@given(fleet=FLEETS, data=st.data())
def test_round_robin_keeps_its_order_when_others_come_and_go(fleet: list[ReplicaView], data: st.DataObject) -> None:
    policy = RoundRobin()
    last = policy.pick(REQUEST, fleet).replica.id
    for _ in range(10):
        present = data.draw(st.lists(st.sampled_from(fleet), min_size=1, unique_by=lambda v: v.id))
        chosen = policy.pick(REQUEST, present).replica.id
        # Nobody who was there has been passed over: between the last pick and this one, cyclically, is no candidate.
        ids = sorted(v.id for v in present)
        assert chosen == next((i for i in ids if i > last), ids[0])
        last = chosen


@given(fleet=FLEETS, picks=st.integers(1, 8))
def test_least_load_picks_the_least_pressure(fleet: list[ReplicaView], picks: int) -> None:
    policy = LeastLoad()
    for _ in range(picks):
        assert pressure(policy.pick(REQUEST, fleet).replica) == min(map(pressure, fleet))


def test_least_load_takes_equals_in_turn() -> None:
    policy, fleet = LeastLoad(), [view("a"), view("b"), view("c")]
    assert Counter(policy.pick(REQUEST, fleet).replica.id for _ in range(9)) == {"a": 3, "b": 3, "c": 3}


@pytest.mark.parametrize(
    ("busier", "freer"),
    [
        (view("a", sent=1), view("b")),
        (view("a", waiting=1), view("b")),
        (view("a", running=3, sent=2), view("b", running=4)),
        (view("a", running=4, tp=2), view("b", running=7, tp=4)),
        (view("a", used=50), view("b", used=49)),
        # A long prompt before it keeps a request waiting, more than any number that only decode.
        (view("a", prefill_tokens=30_000), view("b", running=200)),
        (view("a", prompts=30_000, tp=8), view("b", running=200)),
        (view("a", prefill_tokens=4000, prompts=4192), view("b", running=1)),
        (view("a", prefill_tokens=30_000, tp=2), view("b", prefill_tokens=30_000, tp=8)),
        (view("a", prefill_tokens=60_000), view("b", prefill_tokens=30_000, running=9)),
        # Less than a step of prompts is no reason to prefer another.
        (view("a", running=1), view("b", prefill_tokens=8191)),
        (view("a", running=1, budget=0), view("b", prefill_tokens=50_000, budget=0)),
    ],
)
def test_least_load_counts(busier: ReplicaView, freer: ReplicaView) -> None:
    assert LeastLoad().pick(REQUEST, [busier, freer]).replica is freer
    assert LeastLoad().pick(REQUEST, [freer, busier]).replica is freer


def test_expert_parallelism_adds_no_gpus() -> None:
    assert Shape(tp=8, ep=2).gpus == 8
    assert Shape(tp=4, pp=2).gpus == 8
