"""The paper's rule: the heatmap alone picks the group, load only the replica in it."""

from loadtest.reproduce.load_blind import LoadBlind
from protos.types import Load, Role, Shape
from routing.contracts.policy import ReplicaView, RouteRequest
from routing.policies.least_load import LeastLoad
from routing.policies.pd_heatmap import PdHeatmap

TP4 = Shape(tp=4)
REQUEST = RouteRequest("r", prompt_tokens=2048, max_tokens=64, expected_output=28)


def view(name: str, role: Role, waiting_tokens: int = 0, sent: int = 0) -> ReplicaView:
    load = Load(0, 0, 0, 10_000, 0, prefill_tokens=waiting_tokens)
    return ReplicaView(name, role.value, TP4, role, load, sent=sent, max_num_tokens=8192, kv_block_tokens=32)


def test_no_load_moves_a_request_to_the_other_group() -> None:
    idle = [view("a", Role.BOTH), view("p", Role.PREFILL), view("d", Role.DECODE)]
    policy = LoadBlind(PdHeatmap(None))
    first = policy.pick(REQUEST, idle)
    flooded = [view(v.id, v.role, 10_000_000) if v.id in (first.replica.id, first.entry.id) else v for v in idle]
    again = policy.pick(REQUEST, flooded)
    assert (again.replica.id, again.entry.id) == (first.replica.id, first.entry.id)
    assert {score.replica for score in policy.explain(REQUEST, flooded)} == {first.replica.id}


def test_in_the_group_load_counts() -> None:
    busy, free = view("a", Role.BOTH, 1_000_000, sent=50), view("b", Role.BOTH)
    policy = LoadBlind(LeastLoad())
    assert policy.pick(REQUEST, [busy, free]).replica is free
    assert policy.uses_prefixes is LeastLoad.uses_prefixes
