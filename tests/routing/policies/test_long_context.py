from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from protos.types import Timing
from routing.contracts.policy import Decision, Ended, ReplicaView, Routed, RouteRequest
from routing.policies.long_context import LongContext
from tests.views import BLOCK_TOKENS, ask, view

LONG = 8192


def long(tokens: int = 10_000) -> RouteRequest:
    return ask(tokens, output=100)


def mixed(**used: int) -> list[ReplicaView]:
    """Two wide replicas with room for 64,000 tokens each, and two narrow ones with 16,000; `used` are blocks."""
    return [
        view("w0", tp=8, blocks=2000, used=used.get("w0", 0)),
        view("w1", tp=8, blocks=2000, used=used.get("w1", 0)),
        view("n0", tp=2, blocks=500, used=used.get("n0", 0)),
        view("n1", tp=2, blocks=500, used=used.get("n1", 0)),
    ]


def route(policy: LongContext, request: RouteRequest, fleet: list[ReplicaView]) -> Decision:
    decision = policy.pick(request, fleet)
    policy.observe(Routed(request, decision))
    return decision


def test_long_requests_stay_together_where_there_is_the_most_room() -> None:
    policy = LongContext(LONG)
    first = route(policy, long(), mixed()).replica.id
    assert first in ("w0", "w1")
    assert {route(policy, long(), mixed()).replica.id for _ in range(5)} == {first}


def test_a_host_without_room_is_left_for_the_next_one_but_no_other_shape() -> None:
    policy = LongContext(LONG)
    first = route(policy, long(), mixed()).replica.id
    other = {"w0": "w1", "w1": "w0"}[first]
    assert route(policy, long(), mixed(**{first: 1900})).replica.id == other
    # With no room anywhere they wait where they belong, although narrow replicas are idle.
    assert route(policy, long(), mixed(w0=1900, w1=1900)).replica.id in ("w0", "w1")


def test_a_long_prompt_does_not_wait_for_another_when_a_host_is_free() -> None:
    policy = LongContext(LONG)
    first = route(policy, long(), mixed()).replica.id
    busy = [view(v.id, tp=v.shape.tp, blocks=2000, prefill_tokens=9000 * (v.id == first)) for v in mixed()[:2]]
    assert route(policy, long(), busy).replica.id != first


def test_when_the_last_long_request_has_ended_company_no_longer_counts() -> None:
    policy = LongContext(LONG)
    decision = route(policy, long(), mixed())
    policy.observe(Ended(long(), decision, 0, 100, 1.0, Timing()))
    assert policy._long.total() == len(policy._where) == 0
    assert {policy.pick(long(), mixed()).replica.id for _ in range(4)} == {"w0", "w1"}


def test_a_request_that_moves_counts_once() -> None:
    policy = LongContext(LONG)
    for replica in mixed()[:2]:
        policy.observe(Routed(long(), Decision(replica)))
    assert +policy._long == {"w1": 1}


def test_one_that_fits_only_the_wide_ones_goes_there() -> None:
    scores = {score.replica: score.excluded for score in LongContext(LONG).explain(long(20_000), mixed())}
    assert scores["n0"] == scores["n1"] == "too small"
    assert LongContext(LONG).pick(long(10**6), mixed()).replica.id in ("w0", "w1")


def test_short_requests_use_everything_but_the_reserve() -> None:
    policy = LongContext(LONG)
    busy = {"n0": 400, "n1": 400}
    assert policy.pick(ask(), mixed(**busy)).replica.id.startswith("w")
    # 62.5 blocks of 32 tokens free: less than a long request needs beside this one.
    decision = policy.pick(ask(), mixed(**busy, w0=1750, w1=1750))
    assert (decision.replica.id[0], decision.reason) == ("n", "short request, least loaded")
    excluded = [score for score in policy.explain(ask(), mixed(w0=1750, w1=1750)) if score.excluded]
    assert [score.excluded for score in excluded] == ["room kept for long requests"] * 2


def test_the_reserve_follows_what_long_requests_need_up_to_half_of_a_host() -> None:
    policy = LongContext(LONG)
    fleet = mixed(n0=400, n1=400, w0=1500, w1=1500)  # 16,000 tokens free on each wide one
    assert policy.pick(ask(), fleet).replica.id.startswith("w")
    for _ in range(50):
        route(policy, long(20_000), mixed())
    assert policy.pick(ask(), fleet).replica.id.startswith("n")
    for _ in range(50):
        route(policy, long(60_000), mixed())
    assert policy.pick(ask(), mixed(n0=400, n1=400, w0=900, w1=900)).replica.id.startswith("w")


def test_short_requests_take_the_reserve_when_nothing_else_is_there() -> None:
    decision = LongContext(LONG).pick(ask(), mixed(w0=1990)[:1])
    assert (decision.replica.id, decision.reason) == ("w0", "only room kept for long requests")


def test_in_a_fleet_of_one_shape_half_of_it_takes_long_requests() -> None:
    fleet = [view(f"r{number}") for number in range(4)]
    policy = LongContext(LONG)
    assert {policy.pick(long(), fleet).replica.id for _ in range(9)} == {"r0", "r1"}
    assert LongContext(LONG).pick(long(), [view("only")]).replica.id == "only"


def test_a_host_that_is_no_candidate_now_remains_the_host() -> None:
    fleet = [view(f"r{number}") for number in range(4)]
    policy = LongContext(LONG)
    policy.pick(long(), fleet)
    assert {policy.pick(long(), fleet[1:]).replica.id for _ in range(9)} == {"r1"}
    decision = policy.pick(long(), fleet[2:])
    assert decision.reason == "long request, no host is free"


@given(
    prompts=st.lists(st.one_of(st.integers(10, 2000), st.integers(LONG, 12_000)), max_size=60),
    seed=st.integers(0, 3),
)
def test_long_requests_never_spread_and_always_leave_short_ones_a_way(prompts: list[int], seed: int) -> None:
    """Requests that never end fill a fleet: long ones are only ever on hosts, short ones never in the last reserve."""
    policy = LongContext(LONG)
    used: Counter[str] = Counter()
    for number, prompt in enumerate(prompts):
        fleet = mixed(**used)
        request = ask(prompt, output=10, request_id=f"{seed}-{number}")
        decision = route(policy, request, fleet)
        need = prompt + 10
        if prompt >= LONG:
            assert decision.replica.id.startswith("w")
        elif decision.replica.id.startswith("w") and decision.reason == "short request, least loaded":
            free = (2000 - used[decision.replica.id]) * BLOCK_TOKENS
            assert free - need >= LONG
        used[decision.replica.id] += -(-need // BLOCK_TOKENS)
