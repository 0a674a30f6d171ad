"""`pd_heatmap` and `combined`: which group, and which unit of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from protos.types import Role, Shape, Work
from routing.contracts.heatmap import Heatmap
from routing.contracts.policy import ReplicaView, RoutingPolicy, Stepped
from routing.policies.combined import Combined
from routing.policies.pd_heatmap import PdHeatmap
from routing.policies.phases import stays_local
from tests.views import ask, heatmap, view

#: Long enough that it is worth a pair.
LONG = ask(prompt=8000, output=100)
PAIR, WHOLE = heatmap(+0.2), heatmap(-0.2)
BOTH = [PdHeatmap, Combined]


def fleet(waits: int = 0, pair_waits: int = 0, running: int = 0) -> list[ReplicaView]:
    """Two colocated replicas and a pair, all of 4 GPUs; `waits` are prompt tokens before a request."""
    return [
        *(view(f"w{k}", tp=4, blocks=10_000, prefill_tokens=waits, running=running) for k in range(2)),
        view("p", tp=4, pool="pre", role=Role.PREFILL, prefill_tokens=pair_waits),
        view("d", tp=4, pool="dec", role=Role.DECODE, blocks=10_000),
    ]


def taught(policy: RoutingPolicy) -> RoutingPolicy:
    """It knows that replicas compute 10,000 tokens a second, and take 20 ms for a step of few tokens, as all lately."""
    works = [Work(us=819_200, prefill_tokens=8192), Work(us=204_800, prefill_tokens=2048)]
    works += [Work(us=20_000, sequences=sequences) for sequences in (1, 4, 16, 64, 256)]
    steps = 0
    for _ in range(100):
        for work in works:
            steps += 1 if work.prefill_tokens else 200
            for replica in fleet():
                policy.observe(Stepped(replace(replica, load=replace(replica.load, steps=steps)), work))
    return policy


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize(("chart", "pair"), [(PAIR, True), (WHOLE, False)])
def test_while_nothing_waits_the_heatmap_decides(make: type[PdHeatmap | Combined], chart: Heatmap, pair: bool) -> None:
    decision = make(chart).pick(LONG, fleet())
    assert (decision.prefill is not None) is pair
    assert decision.reason.startswith("heatmap: pair" if pair else "heatmap: colocated")


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize(
    ("chart", "loads", "pair", "why"),
    [
        # The map gives the pair 2 s, in which it computes some 20,000 tokens.
        (PAIR, {"pair_waits": 15_000}, True, "heatmap: pair"),
        (PAIR, {"pair_waits": 26_000}, False, "pair overloaded"),
        (PAIR, {"pair_waits": 26_000, "waits": 15_000}, True, "heatmap: pair"),
        (WHOLE, {"waits": 15_000}, False, "heatmap: colocated"),
        (WHOLE, {"waits": 26_000}, True, "colocated overloaded"),
    ],
)
def test_a_group_that_waits_longer_than_the_map_promises_is_left(
    make: type[PdHeatmap | Combined], chart: Heatmap, loads: dict[str, int], pair: bool, why: str
) -> None:
    decision = taught(make(chart)).pick(LONG, fleet(**loads))
    assert ((decision.prefill is not None), decision.reason.split(";")[0]) == (pair, why)


def test_the_decode_sides_cache_counts_as_load() -> None:
    request = ask(prompt=8000, output=2000)
    full = [
        *fleet()[:3],
        view("d", tp=4, pool="dec", role=Role.DECODE, blocks=10_000, used=9990, tokens_in_flight=9000),
    ]
    assert taught(PdHeatmap(PAIR)).pick(request, fleet()).prefill is not None
    assert taught(PdHeatmap(PAIR)).pick(request, full).prefill is None


@pytest.mark.parametrize(
    ("prompt", "cached", "local"),
    [
        (2047, 0, False),
        (2047, 700, True),
        (8000, 5953, True),
        (8000, 5952, False),
        (2900, 870, False),
        (2900, 880, True),
    ],
)
def test_short_and_cached_prompts_stay_local(prompt: int, cached: int, local: bool) -> None:
    assert stays_local(prompt, cached) is local


@pytest.mark.parametrize("make", BOTH)
def test_conditional_disaggregation_goes_before_the_heatmap(make: type[PdHeatmap | Combined]) -> None:
    decision = make(PAIR).pick(ask(8000, cached={"w1": 7000}), fleet())
    assert decision.prefill is None
    assert decision.reason.startswith("short or cached prompt stays local")
    assert make(PAIR).pick(ask(8000, cached={"p": 7000}), fleet()).prefill is not None


@pytest.mark.parametrize("make", BOTH)
def test_shapes_that_were_not_compared_are_told_apart_by_estimates(make: type[PdHeatmap | Combined]) -> None:
    others = heatmap(5.0, 10.0, Shape(tp=8), Shape(tp=8), Shape(tp=8))
    assert make(others).pick(LONG, fleet(pair_waits=50_000)).prefill is None
    assert make(others).pick(LONG, fleet(waits=50_000)).prefill is not None


def test_the_quickest_unit_of_the_group_is_taken() -> None:
    wide = view("w2", tp=8, pool="wide", blocks=10_000)
    policy = PdHeatmap(WHOLE)
    assert policy.pick(LONG, [*fleet(), wide]).replica.id == "w2"
    assert policy.pick(ask(8000, cached={"w0": 5000}), fleet()).replica.id == "w0"


def test_the_group_that_is_not_taken_is_explained() -> None:
    best, *others = PdHeatmap(PAIR).explain(LONG, fleet())
    assert (best.replica, best.prefill) == ("d", "p")
    assert all(score.excluded.startswith("heatmap: pair (") for score in others)
    assert "the map gives pairs +2.000 s" in others[0].excluded


def test_combined_goes_by_locality_while_the_group_is_balanced() -> None:
    policy = Combined(WHOLE)
    request = ask(8000, cached={"w1": 5000})
    balanced = policy.pick(request, fleet(running=4))
    assert (balanced.replica.id, balanced.reason) == ("w1", "heatmap: colocated; balanced, longest prefix")
    uneven = [view("w0", tp=4), view("w1", tp=4, running=30), *fleet()[2:]]
    unbalanced = policy.pick(request, uneven)
    assert (unbalanced.replica.id, unbalanced.reason) == ("w0", "heatmap: colocated; unbalanced, least loaded")


def test_combined_without_pairs_needs_no_heatmap() -> None:
    decision = Combined(None).pick(ask(8000, cached={"w1": 2000}), fleet()[:2])
    assert (decision.replica.id, decision.reason) == ("w1", "no pairs; balanced, longest prefix")


def test_one_group_alone_is_taken() -> None:
    assert PdHeatmap(WHOLE).pick(LONG, fleet()[2:]).reason == "only pairs"
    assert PdHeatmap(PAIR).pick(LONG, fleet()[:2]).reason == "no pairs"


@given(cell=st.floats(-1, 5), waits=st.integers(0, 200_000), more=st.integers(0, 200_000))
def test_more_load_on_a_pair_never_makes_it_better(cell: float, waits: int, more: int) -> None:
    policy = PdHeatmap(heatmap(cell))
    if policy.pick(LONG, fleet(pair_waits=waits)).prefill is None:
        assert policy.pick(LONG, fleet(pair_waits=waits + more)).prefill is None


@pytest.mark.parametrize("make", BOTH)
def test_answers_wait_for_the_prompts_that_are_computed_between_their_tokens(
    make: type[PdHeatmap | Combined],
) -> None:
    policy = taught(make(WHOLE))
    asked = replace(LONG, expected_output=200.0)
    assert policy.pick(asked, fleet(waits=5000)).prefill is None
    for replica in fleet():
        if replica.role is Role.BOTH:
            busy = replace(replica, load=replace(replica.load, steps=10**6))
            policy.observe(Stepped(busy, Work(us=600_000, prefill_tokens=6000, sequences=10)))
    assert policy.pick(asked, fleet(waits=5000)).prefill is not None
