from hypothesis import given
from hypothesis import strategies as st

from protos.types import Role
from routing.contracts.policy import Decision, ReplicaView
from routing.policies.prefix import Prefix
from tests.views import ask, view

LOADS = st.lists(st.integers(0, 200), min_size=2, max_size=8)


def picked(fleet: list[ReplicaView], prompt: int = 1000, **cached: int) -> Decision:
    return Prefix().pick(ask(prompt, cached=cached), fleet)


def test_the_longest_prefix_wins_over_less_load() -> None:
    decision = picked([view("a", running=5), view("b", running=1), view("c")], a=900, b=500)
    assert (decision.replica.id, decision.reason) == ("a", "longest prefix")


def test_of_equal_holders_the_least_loaded_is_taken() -> None:
    assert picked([view("a", running=5), view("b", running=2), view("c")], a=900, b=900).replica.id == "b"


def test_a_short_match_is_not_worth_it() -> None:
    fleet = [view("a", running=2), view("b")]
    assert picked(fleet, a=300).reason == "no prefix, least loaded"
    assert picked(fleet, a=301).replica.id == "a"
    assert picked(fleet, prompt=30_000, a=1000).replica.id == "b"
    assert picked(fleet, prompt=30_000, a=1024).replica.id == "a"


def test_an_overloaded_holder_is_passed_over_for_this_request_only() -> None:
    fleet = [view("a", running=40), view("b", running=4), view("c", running=5)]
    decision = picked(fleet, a=900)
    assert (decision.replica.id, decision.reason) == ("b", "holder overloaded, least loaded")
    assert picked(fleet, b=900).replica.id == "b"
    assert picked(fleet, a=900, c=500).replica.id == "c"


def test_small_fleets_spill_long_before_a_replica_holds_64_requests() -> None:
    idle = [view(f"r{number}") for number in range(7)]
    assert picked([view("a", running=9), *idle], a=900).replica.id == "a"
    assert picked([view("a", running=10), *idle], a=900).replica.id != "a"


def test_a_wide_replica_may_hold_more() -> None:
    fleet = [view("a", tp=8, running=40), view("b", tp=2, running=10), view("c", tp=2, running=10)]
    assert picked(fleet, a=900).replica.id == "a"


def test_prompts_that_wait_longer_than_the_match_saves() -> None:
    assert picked([view("a", prefill_tokens=1000), view("b")], a=900).replica.id == "a"
    assert picked([view("a", prefill_tokens=2000), view("b")], a=900).replica.id == "b"


def test_a_pair_holds_what_its_prefill_replica_has() -> None:
    fleet = [view("p", role=Role.PREFILL), view("d", role=Role.DECODE, running=3), view("w")]
    decision = picked(fleet, p=900)
    assert (decision.entry.id, decision.replica.id) == ("p", "d")
    assert picked(fleet, d=900).replica.id == "w"


@given(loads=LOADS, data=st.data())
def test_the_holder_is_left_only_when_it_has_more_than_its_part(loads: list[int], data: st.DataObject) -> None:
    fleet = [view(f"r{number}", running=load) for number, load in enumerate(loads)]
    holder = data.draw(st.integers(0, len(loads) - 1))
    fair = sum(loads) / len(loads)
    overloaded = loads[holder] > 1.5 * fair and loads[holder] - fair > 8
    decision = picked(fleet, **{f"r{holder}": 900})
    if overloaded:
        assert decision.replica.load.running == min(loads)
    else:
        assert decision.replica.id == f"r{holder}"
