import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.types import Role, Timing, Work
from routing.contracts.policy import Ended, ReplicaView, Routed, Stepped
from routing.contracts.policy_settings import Tier
from routing.policies.concurrency import Concurrency
from tests.views import ask, view

THREE = (
    Tier(frozenset({"wide"}), below=10),
    Tier(frozenset({"middle"}), below=100),
    Tier(frozenset({"narrow"})),
)


def fleet(concurrency: int) -> list[ReplicaView]:
    """A wide, a middle and two narrow replicas, with all the load on the first, which is the one to avoid then."""
    return [
        view("w", tp=8, pool="wide", running=concurrency),
        view("m", tp=4, pool="middle"),
        view("n0", tp=2, pool="narrow"),
        view("n1", tp=2, pool="narrow"),
    ]


def tiers_of(policy: Concurrency, concurrencies: Sequence[int]) -> list[str]:
    return [policy.pick(ask(), fleet(concurrency)).replica.pool for concurrency in concurrencies]


def test_without_tiers_the_widest_serve_below_64_and_the_narrowest_from_there_on() -> None:
    assert tiers_of(Concurrency(), [0, 30, 63, 64, 500]) == ["wide", "wide", "wide", "narrow", "narrow"]
    assert tiers_of(Concurrency(threshold=31), [30, 31]) == ["wide", "narrow"]


def test_a_fleet_of_one_width_is_one_tier() -> None:
    decision = Concurrency().pick(ask(), [view("a", running=70), view("b", running=1)])
    assert (decision.replica.id, decision.reason) == ("b", "tier 1 of 1")


def test_any_number_of_tiers_with_the_least_loaded_of_each() -> None:
    policy = Concurrency(THREE)
    assert tiers_of(policy, [9, 10, 99, 100]) == ["wide", "middle", "middle", "narrow"]
    busy = [*fleet(100)[:2], view("n0", tp=2, pool="narrow", running=5), view("n1", tp=2, pool="narrow", running=4)]
    assert policy.pick(ask(), busy).replica.id == "n1"


def test_what_was_sent_and_no_report_has_counts() -> None:
    policy = Concurrency()
    assert policy.pick(ask(), [view("w", tp=8, pool="wide", sent=64), view("n", pool="narrow")]).replica.id == "n"


def test_a_tier_is_left_downwards_only_well_below_its_bound() -> None:
    policy = Concurrency(THREE)
    assert tiers_of(policy, [100, 95, 90, 89, 95, 99]) == ["narrow", "narrow", "narrow", "middle", "middle", "middle"]
    assert tiers_of(policy, [100, 3]) == ["narrow", "wide"]


@given(steps=st.lists(st.sampled_from([-1, 1]), min_size=1, max_size=200))
def test_it_does_not_flap(steps: list[int]) -> None:
    policy, concurrency, changes, travelled = Concurrency(THREE), 100, 0, 0
    before = tiers_of(policy, [concurrency])[0]
    for step in steps:
        concurrency += step
        travelled += 1
        pool = tiers_of(policy, [concurrency])[0]
        if pool != before:
            # Between two changes lies the whole band of 10 below the bound, once it has been crossed.
            assert changes == 0 or travelled > 9
            before, changes, travelled = pool, changes + 1, 0


def test_explaining_changes_nothing_and_leaves_the_other_tiers_out() -> None:
    policy = Concurrency(THREE)
    policy.pick(ask(), fleet(100))
    scores = policy.explain(ask(), fleet(95))
    assert [score.replica for score in scores if not score.excluded] == ["n0", "n1"]
    assert {score.excluded for score in scores} == {"", "not in tier 3 of 3"}
    policy.explain(ask(), fleet(3))
    assert tiers_of(policy, [95]) == ["narrow"]


def test_replicas_without_room_still_count() -> None:
    policy = Concurrency()
    policy.pick(ask(now=1.0), fleet(70))
    # The wide one, with its 70 sequences, is no candidate any more, and the tier is still the upper one.
    assert policy.pick(ask(now=2.0), fleet(70)[1:]).replica.pool == "narrow"
    # Long after it was seen last it is taken to be gone, and with it what it held.
    assert policy.pick(ask(now=20.0), fleet(0)[1:]).replica.pool == "middle"


def test_steps_refresh_what_is_known_of_a_replica_without_room() -> None:
    policy = Concurrency()
    policy.pick(ask(now=1.0), fleet(70))
    policy.observe(Stepped(fleet(10)[0], Work(us=1)))
    assert policy.pick(ask(now=2.0), fleet(0)[1:]).reason == "tier 1 of 2"


def test_a_tier_without_candidates_is_replaced_by_its_neighbour() -> None:
    assert Concurrency(THREE).pick(ask(), fleet(0)[1:]).replica.pool == "middle"
    assert Concurrency(THREE).pick(ask(), [view("x", pool="other")]).replica.id == "x"


def test_a_full_tier_overflows() -> None:
    full = [view("w", tp=8, pool="wide", running=5, waiting=2), *fleet(0)[1:]]
    decision = Concurrency().pick(ask(), full)
    assert (decision.replica.pool, decision.reason) != ("wide", "tier 1 of 2 is full")
    assert decision.reason == "tier 1 of 2 is full"


def test_a_pair_is_in_the_tier_of_either_of_its_pools() -> None:
    pair = [view("p", tp=4, pool="pre", role=Role.PREFILL), view("d", tp=4, pool="dec", role=Role.DECODE)]
    tiers = (Tier(frozenset({"pre"}), below=5), Tier(frozenset({"narrow"})))
    assert Concurrency(tiers).pick(ask(), [*fleet(0), *pair]).prefill is pair[0]


def serve(policy: Concurrency, concurrency: int, seconds: dict[str, float], requests: int, start: int) -> list[str]:
    """Requests one after another, each of which takes so long for a token in the pool that it goes to."""
    pools = []
    for number in range(start, start + requests):
        request = ask(request_id=str(number), now=float(number))
        decision = policy.pick(request, fleet(concurrency))
        policy.observe(Routed(request, decision))
        pools.append(decision.replica.pool)
        timing = Timing(decode_us=round(1e8 * seconds[decision.replica.pool]))
        policy.observe(Ended(request, decision, 0, 100, 0.1, timing))
    return pools


@pytest.mark.parametrize("best", ["wide", "middle", "narrow"])
@pytest.mark.parametrize("concurrency", [20, 200])
def test_the_best_tier_is_learned_for_each_concurrency_with_bounded_exploration(best: str, concurrency: int) -> None:
    policy = Concurrency(learner_rng=random.Random(3))
    seconds = dict.fromkeys(("wide", "middle", "narrow"), 0.02) | {best: 0.01}
    serve(policy, concurrency, seconds, 5000, 0)
    later = serve(policy, concurrency, seconds, 10_000, 5000)
    assert later.count(best) / len(later) > 0.8
    assert later.count(best) < len(later)


def test_what_is_learned_follows_when_the_best_tier_changes() -> None:
    policy = Concurrency(learner_rng=random.Random(3))
    slow = dict.fromkeys(("wide", "middle", "narrow"), 0.02)
    serve(policy, 20, slow | {"wide": 0.01}, 3000, 0)
    serve(policy, 20, slow | {"narrow": 0.005}, 6000, 3000)
    assert serve(policy, 20, slow | {"narrow": 0.005}, 2000, 9000).count("narrow") > 1500


def test_what_differs_little_does_not_flap() -> None:
    policy = Concurrency(learner_rng=random.Random(3))
    pools = serve(policy, 20, {"wide": 0.0200, "middle": 0.0198, "narrow": 0.0201}, 6000, 0)[2000:]
    changes = sum(one != other for one, other in pairwise(pools))
    assert changes <= 2 * 0.2 * len(pools) / 40


def test_requests_that_never_end_do_not_fill_the_memory() -> None:
    policy = Concurrency(learner_rng=random.Random(3))
    for number in range(1000):
        request = ask(request_id=str(number))
        policy.observe(Routed(request, policy.pick(request, fleet(20))))
    assert policy._learner is not None
    assert len(policy._learner._routed) <= 1000
