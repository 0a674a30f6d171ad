from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from protos.types import Role
from routing.contracts.policy import ReplicaView
from routing.policies.round_robin import RoundRobin
from tests.views import ask, fleets, view

WHOLE = fleets(st.just(Role.BOTH))


@given(fleet=WHOLE, rounds=st.integers(1, 5))
def test_every_replica_gets_the_same_number(fleet: list[ReplicaView], rounds: int) -> None:
    policy = RoundRobin()
    picks = Counter(policy.pick(ask(), fleet).replica.id for _ in range(rounds * len(fleet)))
    assert picks == {replica.id: rounds for replica in fleet}


@given(fleet=WHOLE, data=st.data())
def test_the_order_stays_when_others_come_and_go(fleet: list[ReplicaView], data: st.DataObject) -> None:
    policy = RoundRobin()
    last = policy.pick(ask(), fleet).replica.id
    for _ in range(10):
        present = data.draw(st.lists(st.sampled_from(fleet), min_size=1, unique_by=lambda v: v.id))
        chosen = policy.pick(ask(), present).replica.id
        # Nobody who was there has been passed over: between the last pick and this one, cyclically, is no candidate.
        ids = sorted(v.id for v in present)
        assert chosen == next((i for i in ids if i > last), ids[0])
        last = chosen


def test_a_pair_has_one_turn() -> None:
    policy = RoundRobin()
    fleet = [view("w"), view("p", role=Role.PREFILL), view("d", role=Role.DECODE)]
    picks = Counter(policy.pick(ask(), fleet).entry.id for _ in range(10))
    assert picks == {"w": 5, "p": 5}


def test_the_next_in_turn_comes_first_in_the_explanation() -> None:
    policy, fleet = RoundRobin(), [view("a"), view("b"), view("c")]
    policy.pick(ask(), fleet)
    assert [(score.replica, score.value) for score in policy.explain(ask(), fleet)] == [("b", 0), ("c", 1), ("a", 2)]
