from math import ceil, floor
from random import Random
from typing import Any

import msgspec
import pytest

from routing.rollouts.judging import bounds_of
from routing.rollouts.measures.measures import Measures
from routing.rollouts.measures.slice import Slice
from routing.rollouts.settings import Rollout as Settings
from routing.rollouts.verdicts.bounds import Bounds, Goal
from routing.rollouts.verdicts.judge import judge
from routing.rollouts.verdicts.reasons import described
from routing.rollouts.verdicts.verdict import Comparison, Verdict
from tests.routing.rollouts.verdicts.versions import measures


def compared(
    candidate: dict[str, Any], *, slices: int = 24, copies: int = 1, bounds: Bounds | None = None, **both: Any
) -> Verdict:
    """The verdict on versions that differ by `candidate`, at the same load on each replica, seen `copies` times."""
    random = Random(1)
    theirs = measures(random, slices=slices, requests=60, replicas=6, **both)
    ours = measures(random, slices=slices, requests=20, **{**both, **candidate})
    for found in (theirs, ours):
        seen = list(found.slices.items())
        found.slices |= {begin + copy * slices * 10: piece for begin, piece in seen for copy in range(1, copies)}
    return judge(theirs, ours, bounds or Bounds(), slices * 10.0)


def test_a_candidate_like_the_baseline_is_as_good() -> None:
    verdict = compared({}, failed=0.003, truncated=0.05)
    assert verdict.kind == "as_good", verdict.reason
    assert not verdict.bound_crossed
    ttft = next(each for each in verdict.comparisons if (each.measure, each.stratum) == ("ttft", None))
    assert ttft.high is not None
    assert ttft.low < 1.0 < ttft.high
    assert (ttft.baseline_samples, ttft.candidate_samples) == (1440, 480)


@pytest.mark.parametrize(
    ("candidate", "measure"),
    [
        ({"slower": 1.4}, "tpot"),
        ({"long_prompts": 2.0}, "prompts of 4096 to 16383 tokens"),
        ({"growth": 0.15}, "grows by"),
        ({"failed": 0.08}, "errors"),
        ({"truncated": 0.3}, "truncated"),
    ],
)
def test_what_is_worse_is_found_and_named(candidate: dict[str, Any], measure: str) -> None:
    verdict = compared(candidate, slices=48, failed=0.002, truncated=0.05)
    assert verdict.kind == "worse"
    assert any(measure in said for said in (verdict.reason, *map(_said, verdict.comparisons))), verdict.reason


def _said(comparison: Comparison) -> str:
    return described(comparison) if comparison.standing == "worse" else ""


def test_a_candidate_that_got_all_requests_at_once_is_held_to_its_bounds_alone() -> None:
    settings = Settings(model="m", to="v2", plan="blue_green")
    at_once = Settings(model="m", to="v2", stages=(1.0,))
    ours = measures(Random(1), slices=3, requests=60)
    assert judge(Measures(), ours, bounds_of(settings), 30.0).kind == "as_good"
    assert judge(Measures(), ours, bounds_of(at_once), 30.0).kind == "as_good"
    assert (
        judge(Measures(), ours, bounds_of(msgspec.structs.replace(settings, plan="canary")), 30.0).kind
        == "inconclusive"
    )
    failed = Measures(slices={0: Slice(counts={"requests": 50, "failed": 20})})
    assert judge(Measures(), failed, bounds_of(settings), 30.0).bound_crossed


def test_a_candidate_that_hardly_answers_crosses_a_bound_at_once() -> None:
    """Long before it has its least number of requests."""
    random = Random(1)
    theirs = measures(random, slices=3, requests=60)
    ours = Measures(slices={0: Slice(counts={"requests": 5, "failed": 5})})
    verdict = judge(theirs, ours, Bounds(), 2.0)
    assert (verdict.kind, verdict.bound_crossed) == ("worse", True)
    assert verdict.reason == "100 % of 5 requests failed; 1 % may."


@pytest.mark.parametrize(("failed", "kind"), [(0, "as_good"), (1, "worse")])
def test_a_bound_of_nothing_is_crossed_by_one_failure(failed: int, kind: str) -> None:
    measures = Measures(slices={0: Slice(counts={"requests": 200, "answers": 200 - failed, "failed": failed})})
    verdict = judge(Measures(slices={10: Slice(counts={"requests": 200})}), measures, Bounds(error_rate=0.0), 20.0)
    assert (verdict.kind, verdict.bound_crossed) == (kind, bool(failed))


@pytest.mark.parametrize(("rate", "worse"), [(0.2, False), (0.9, True)])
def test_what_clients_tell_later_is_not_compared_with_the_answers_of_its_slice(rate: float, worse: bool) -> None:
    """With a request in each slice, the one in which it is told mostly has none of the version that it is about."""
    told = []
    for seed in range(8):
        random, pair = Random(seed), (Measures(), Measures())
        for number in range(400):
            of_candidate = random.random() < 0.25
            slices = pair[of_candidate].slices
            answer = slices.setdefault(number * 10, Slice(epoch=1))
            answer.count("requests")
            answer.count("answers")
            if random.random() < (rate if of_candidate else 0.2):
                slices.setdefault((number + 18) * 10, Slice()).count("regenerated")
        found = judge(*pair, Bounds(), 4000.0).comparisons
        told += [each.standing == "worse" for each in found if each.measure == "regenerated"]
    assert told == [worse] * 8


def test_times_far_over_the_bound_cross_it() -> None:
    verdict = compared({"slower": 8.0}, slices=6)
    assert verdict.kind == "worse"
    assert any(each.measure == "ttft_p99" and each.standing == "worse" for each in verdict.comparisons)


@pytest.mark.parametrize("missing", ["candidate", "stable version"])
def test_without_traffic_on_both_nothing_is_concluded(missing: str) -> None:
    there, absent = measures(Random(1), slices=12, requests=20), Measures()
    pair = (there, absent) if missing == "candidate" else (absent, there)
    verdict = judge(*pair, Bounds(), 120.0)
    assert verdict.kind == "inconclusive"
    assert verdict.reason == f"The {missing} has had 0 of 100 requests."


def test_versions_that_follow_each_other_are_held_to_the_bounds_alone() -> None:
    random = Random(1)
    theirs = measures(random, slices=12, requests=40)
    after = measures(random, slices=24, requests=40)
    ours = Measures(slices={begin: piece for begin, piece in after.slices.items() if begin >= 120})
    assert judge(theirs, ours, Bounds(), 120.0).kind == "as_good"


@pytest.mark.parametrize(
    ("candidate", "measure"),
    [({"slower": 1.25}, "tpot"), ({"failed": 0.012}, "errors"), ({"truncated": 0.09}, "truncated")],
)
def test_what_is_not_sure_yet_says_how_many_requests_it_takes(candidate: dict[str, Any], measure: str) -> None:
    """As many times what was seen, and no fewer, make it sure, if they are just the same."""
    both: dict[str, Any] = {"failed": 0.002, "truncated": 0.05}
    for slices in range(6, 40):
        early = compared(candidate, slices=slices, **both)
        if early.kind == "inconclusive" and f": {measure}" in early.reason:
            break
    assert early.needed
    assert early.needed_baseline is not None
    assert abs(early.needed_baseline - 3 * early.needed) <= 3
    assert f"about {early.needed} more requests of the candidate and {early.needed_baseline} of the" in early.reason
    times = 1 + early.needed / (20 * slices)
    assert compared(candidate, slices=slices, copies=floor(times), **both).kind == "inconclusive"
    assert compared(candidate, slices=slices, copies=ceil(times), **both).kind == "worse"


def test_how_many_more_requests_it_takes_is_not_made_up() -> None:
    """Where the rate is just over its bound no number of requests would tell within reason."""
    failed = Measures(slices={0: Slice(counts={"requests": 1000, "failed": 11})})
    barely = judge(Measures(slices={0: Slice(counts={"requests": 1000, "failed": 11})}), failed, Bounds(), 10.0)
    assert barely.kind == "inconclusive"
    assert (barely.needed, barely.needed_baseline) == (None, None)
    assert barely.reason.endswith("How many more requests would tell is not known yet.")
    few = judge(Measures(slices={0: Slice(counts={"requests": 80})}), failed, Bounds(min_requests=2000), 10.0)
    assert (few.needed, few.needed_baseline) == (1000, 1920)


@pytest.mark.parametrize(("accepted", "kind"), [(26, "better"), (15, "worse"), (20, "as_good")])
def test_an_ab_test_is_as_good_only_where_the_difference_of_interest_is_ruled_out(accepted: int, kind: str) -> None:
    bounds = Bounds(goal=Goal(measure="accepted", better="higher", effect=0.3))
    theirs, ours = Measures(), Measures()
    kinds: list[str] = []
    needed: list[int | None] = []
    for number in range(1, 41):
        for found, times in ((theirs, 20), (ours, accepted)):
            counts = {"requests": 100, "answers": 100, "accepted": times}
            found.slices[number * 10] = Slice(counts=counts)
        verdict = judge(theirs, ours, bounds, number * 10.0)
        kinds.append(verdict.kind)
        needed.append(verdict.needed)
    assert sorted(set(kinds), key=kinds.index) == ["inconclusive", kind]
    decided = kinds.index(kind)
    assert "inconclusive" not in kinds[decided:]
    # What is said to be needed is about what it takes.
    for at in (3, 6):
        told = needed[at]
        assert told is not None
        assert 0.5 < told / (100 * (decided - at)) < 2.0


def test_an_ab_test_goes_by_its_goal_and_says_what_it_needs() -> None:
    bounds = Bounds(goal=Goal(measure="accepted", better="higher", effect=0.3))
    early = compared({}, slices=12, bounds=bounds, accepted=0.2)
    assert early.kind == "inconclusive"
    assert early.needed
    assert (
        f"About {early.needed} more requests of the candidate and {early.needed_baseline} of the stab" in early.reason
    )
    won = compared({"accepted": 0.5}, slices=12, bounds=bounds, accepted=0.2)
    assert won.kind == "better"
    assert won.goal is not None
    assert won.goal.low > 1.0
    lost = compared({"accepted": 0.05}, slices=12, bounds=bounds, accepted=0.2)
    assert lost.kind == "worse"
    assert not lost.bound_crossed
