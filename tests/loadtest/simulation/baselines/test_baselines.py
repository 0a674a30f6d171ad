"""The field's own policies, held against their published formulas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.simulation.baselines.dynamo_kv import DynamoKv
from loadtest.simulation.baselines.llmd import Llmd
from loadtest.simulation.baselines.paced import Paced
from loadtest.simulation.baselines.prompt_tree import PromptTree
from loadtest.simulation.baselines.smg_cache_aware import SmgCacheAware
from protos.types import Role, Work
from routing.contracts.policy import BetterWait, Routed, RouteRequest, RoutingPolicy, Stepped
from routing.contracts.policy_settings import Targets
from routing.policies.least_load import LeastLoad
from tests.views import ask, view

CHAINS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=12)


def send(policy: RoutingPolicy, request: RouteRequest, *names: str) -> str:
    """Route a request among idle replicas of these names."""
    decision = policy.pick(request, [view(name) for name in names])
    policy.observe(Routed(request, decision))
    return decision.replica.id


def test_smg_keeps_what_shares_over_three_tenths_together() -> None:
    policy = SmgCacheAware(PromptTree())
    first = send(policy, ask(chain=range(10)), "a", "b")
    assert {send(policy, ask(chain=[0, 1, 2, 3, 20 + k, 30 + k]), "a", "b") for k in range(4)} == {first}
    few = ask(chain=[0, 1, 2, *range(100, 107)])
    assert policy.pick(few, [view("a"), view("b")]).reason == "no match, least loaded"


def test_smg_spills_for_one_request_and_inserts_there() -> None:
    policy = SmgCacheAware(PromptTree())
    request = ask(chain=range(10))
    fleet = [view("a", running=97), *(view(name, running=1) for name in "bcd")]
    policy.observe(Routed(request, policy.pick(request, fleet[:1])))
    kept = [view("a", running=96 - 10), *fleet[1:]]  # 64 above the mean, but not more
    assert policy.pick(request, kept).replica.id == "a"
    spilled = policy.pick(request, fleet)
    assert (spilled.replica.id, spilled.reason) != ("a", "matched")
    assert spilled.reason == "holder overloaded, least loaded"
    policy.observe(Routed(request, spilled))
    again = policy.pick(request, fleet)
    assert (again.replica.id, again.reason) == (spilled.replica.id, "matched")


def test_smg_counts_requests_whatever_the_shape() -> None:
    assert SmgCacheAware(PromptTree()).pick(ask(), [view("a", tp=8, running=3), view("b", running=2)]).replica.id == "b"


def test_smg_ignores_a_holder_that_is_gone() -> None:
    policy = SmgCacheAware(PromptTree())
    send(policy, ask(chain=range(10)), "a")
    assert policy.pick(ask(chain=range(10)), [view("b")]).reason == "holder is gone, least loaded"


def test_the_tree_is_bounded_and_drops_the_oldest_leaves_first() -> None:
    tree = PromptTree(most_blocks=6)
    tree.insert([1, 2, 3, 4], "a")
    tree.insert([1, 2, 5, 6, 7], "b")
    assert len(tree) == 6
    assert tree.match([1, 2, 3, 4]) == (3, ("a",))
    assert tree.match([1, 2, 5, 6, 7]) == (5, ("b",))
    assert tree.match([1, 2, 9]) == (2, ("a", "b"))
    assert tree.match([8]) == (0, ())


@given(chains=CHAINS, bound=st.integers(1, 12))
def test_the_tree_stays_a_tree(chains: list[list[int]], bound: int) -> None:
    tree = PromptTree(bound)
    prefixes = [[hash(tuple(chain[: end + 1])) for end in range(len(chain))] for chain in chains]
    for number, chain in enumerate(prefixes):
        tree.insert(chain, f"r{number}")
        assert len(tree) <= bound
        matched, holders = tree.match(chain)
        assert matched == min(len(chain), bound)
        assert f"r{number}" in holders
        for other in prefixes[:number]:
            length, known = tree.match(other)
            assert all(prefix in tree._holders for prefix in other[:length])
            assert length == 0 or known


def test_dynamos_cost_is_prefill_and_decode_in_blocks() -> None:
    busy = view("a", tokens_in_flight=3200, prefill_tokens=640, prompts=320, sent_kv=640)
    (score,) = DynamoKv().explain(ask(1600, cached={"a": 960}), [busy])
    assert score.parts["prefill_blocks"] == (640 + 320 + 1600 - 960) / 32
    assert score.parts["decode_blocks"] == (3200 + 640 + 1600) / 32
    assert score.value == score.parts["prefill_blocks"] + score.parts["decode_blocks"]


def test_dynamo_takes_credit_against_load() -> None:
    fleet = [view("a", tokens_in_flight=960), view("b")]
    assert DynamoKv().pick(ask(1600, cached={"a": 992}), fleet).replica.id == "a"
    assert DynamoKv().pick(ask(1600, cached={"a": 928}), fleet).replica.id == "b"


def test_dynamo_gives_a_pair_no_credit_for_its_decode_side() -> None:
    pair = [view("p", role=Role.PREFILL), view("d", role=Role.DECODE, tokens_in_flight=320)]
    (score,) = DynamoKv().explain(ask(3200, cached={"p": 1600, "d": 3168}), pair)
    assert score.parts == {"cost_blocks": 50 + 110, "prefill_blocks": 50, "decode_blocks": 110}


def test_dynamo_keeps_short_well_cached_prompts_from_pairs() -> None:
    fleet = [
        view("w", running=50, tokens_in_flight=50_000),
        *(view(r.value, role=r) for r in (Role.PREFILL, Role.DECODE)),
    ]
    assert DynamoKv().pick(ask(4000, cached={"w": 3000}), fleet).prefill is None
    assert DynamoKv().pick(ask(4000, cached={"w": 1900}), fleet).prefill is not None
    assert DynamoKv().pick(ask(1000), fleet).prefill is not None


def test_llmds_score_is_weighted() -> None:
    fleet = [
        view("a", waiting=4, used=250),
        view("b", waiting=1, sent=2, used=750),
        view("c", used=1000),
    ]
    scores = {score.replica: score for score in Llmd().explain(ask(1000, cached={"a": 500, "c": 799}), fleet)}
    assert scores["a"].value == -(2 * 0 + 2 * 0.75 + 3 * 0.5)
    assert scores["b"].value == -(2 * 0.25 + 2 * 0.25 + 3 * 0)
    assert scores["c"].value == pytest.approx(-(2 * 1 + 2 * 0 + 3 * 0.799))
    assert scores["a"].parts["kv_score"] == 0.75


def test_llmds_match_is_sticky_from_four_fifths_on_unless_that_takes_too_long() -> None:
    policy = Llmd()
    fleet = [view("a", waiting=50, used=999, tp=8), view("b", tp=8)]
    assert policy.pick(ask(1000, cached={"a": 800}), fleet).reason == "highest score among sticky ones"
    assert policy.pick(ask(1000, cached={"a": 800}), fleet).replica.id == "a"
    assert policy.pick(ask(1000, cached={"a": 799}), fleet).replica.id == "b"
    for _ in range(300):  # some 80 us a token
        policy.observe(Stepped(fleet[0], Work(us=660_000, prefill_tokens=8192)))
        policy.observe(Stepped(fleet[0], Work(us=170_000, prefill_tokens=2048)))
    late = [view("a", waiting=50, used=999, tp=8, prefill_tokens=400_000), view("b", tp=8)]
    assert policy.pick(ask(1000, cached={"a": 900}), late).replica.id == "b"
    soon = [view("a", waiting=50, used=999, tp=8, prefill_tokens=100_000), view("b", tp=8)]
    assert policy.pick(ask(1000, cached={"a": 900}), soon).replica.id == "a"


def test_a_pair_is_scored_like_one_replica_of_its_size() -> None:
    pair = [view("p", role=Role.PREFILL, tp=4, waiting=3), view("d", role=Role.DECODE, tp=4, used=500)]
    for policy in (Llmd(), DynamoKv(), SmgCacheAware(PromptTree())):
        (score,) = policy.explain(ask(), pair)
        assert (score.replica, score.prefill) == ("d", "p")


def test_a_paced_policy_chooses_among_those_that_keep_the_pace() -> None:
    policy = Paced(LeastLoad(), Targets())
    full, ready = view("full", running=1, used=1000), view("ready", running=9)
    assert LeastLoad().pick(ask(), [ready, view("full", running=1)]).replica.id == "full"
    assert policy.pick(ask(), [full, ready]).replica.id == "ready"
    with pytest.raises(BetterWait):
        policy.pick(ask(may_wait=True), [full])
    assert policy.pick(ask(), [full]).replica.id == "full"


def test_a_paced_policy_waits_for_both_sides_of_a_pair() -> None:
    policy = Paced(LeastLoad(), Targets())
    prefill, decode = view("p", role=Role.PREFILL), view("d", role=Role.DECODE)
    decision = policy.pick(ask(may_wait=True), [prefill, decode])
    assert (decision.entry.id, decision.replica.id) == ("p", "d")
    with pytest.raises(BetterWait):
        policy.pick(ask(may_wait=True), [prefill, view("d", role=Role.DECODE, running=1, used=1000)])
