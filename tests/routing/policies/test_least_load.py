from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.types import Role, Shape
from routing.contracts.policy import ReplicaView
from routing.policies.least_load import LeastLoad
from routing.policies.measures import pressure
from tests.views import ask, fleets, view


@given(fleet=fleets(st.just(Role.BOTH)), picks=st.integers(1, 8))
def test_the_least_pressure_is_picked(fleet: list[ReplicaView], picks: int) -> None:
    policy = LeastLoad()
    for _ in range(picks):
        assert pressure(policy.pick(ask(), fleet).replica) == min(map(pressure, fleet))


def test_equals_are_taken_in_turn() -> None:
    policy, fleet = LeastLoad(), [view("a"), view("b"), view("c")]
    assert Counter(policy.pick(ask(), fleet).replica.id for _ in range(9)) == {"a": 3, "b": 3, "c": 3}


@pytest.mark.parametrize(
    ("busier", "freer"),
    [
        (view("a", sent=1), view("b")),
        (view("a", waiting=1), view("b")),
        (view("a", running=3, sent=2), view("b", running=4)),
        (view("a", running=4, tp=2), view("b", running=7, tp=4)),
        (view("a", used=50), view("b", used=49)),
        (view("a", used=50, sent_kv=64), view("b", used=51)),
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
def test_what_counts(busier: ReplicaView, freer: ReplicaView) -> None:
    assert LeastLoad().pick(ask(), [busier, freer]).replica is freer
    assert LeastLoad().pick(ask(), [freer, busier]).replica is freer


def test_expert_parallelism_adds_no_gpus() -> None:
    assert Shape(tp=8, ep=2).gpus == 8
    assert Shape(tp=4, pp=2).gpus == 8


def test_the_parts_of_the_pressure_are_named() -> None:
    best, worst = LeastLoad().explain(ask(), [view("a", tp=2, running=8), view("b", tp=2, prefill_tokens=30_000)])
    assert (best.replica, worst.replica) == ("a", "b")
    assert best.parts == {"prefill_steps_per_gpu": 0.0, "requests_per_gpu": 4.0, "kv_use": 0.0}
    assert worst.value == worst.parts["prefill_steps_per_gpu"] == 1.5
