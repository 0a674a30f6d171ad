from math import ceil, floor
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from routing.rollouts.measures.measures import Measures
from routing.rollouts.measures.slice import Slice
from routing.rollouts.verdicts.assurance import RULED_OUT, evidence_against, unproven
from routing.rollouts.verdicts.blocks import moments_of

counts = st.integers(1, 400).flatmap(lambda among: st.tuples(st.integers(0, among), st.just(among)))


def of(**events: int) -> Measures:
    measures = Measures()
    piece = measures.slices[0] = Slice()
    for event, times in events.items():
        piece.count(event, times)
    return measures


@given(counts, counts, st.floats(0.001, 0.5))
def test_evidence_is_none_where_the_difference_is_there_and_grows_with_the_sample(
    ours: tuple[int, int], theirs: tuple[int, int], effect: float
) -> None:
    found = evidence_against(*ours, *theirs, effect)
    assert found >= 0.0
    if ours[0] / ours[1] - theirs[0] / theirs[1] >= effect:
        assert found == 0.0
    larger = evidence_against(3 * ours[0], 3 * ours[1], 3 * theirs[0], 3 * theirs[1], effect)
    assert larger >= found - 1e-6


def test_a_candidate_that_breaks_more_calls_is_seldom_taken_for_one_that_does_not() -> None:
    random, runs = Random(1), 400
    passed = {
        share: sum(
            evidence_against(binomial(random, 400, share), 400, binomial(random, 400, 0.01), 400, 0.02) >= RULED_OUT
            for _ in range(runs)
        )
        / runs
        for share in (0.01, 0.03)
    }
    assert passed[0.03] < 0.1
    assert passed[0.01] > 0.5


def test_too_few_tool_calls_are_named_and_rare_ones_are_not() -> None:
    few = of(requests=150, answers=150, calls=50, invalid_calls=1)
    found = unproven(moments_of(few, few), 0.005)
    assert found is not None
    assert found.said == "invalid_tool_calls: 1 of 50 beside 1 of 50 do not rule out that the share is 2 % higher"
    # So many times as much rules it out, and less does not.
    assert found.more is not None
    assert unproven(moments_of(few, few) * floor(1.0 + found.more), 0.005) is not None
    assert unproven(moments_of(few, few) * ceil(1.0 + found.more), 0.005) is None
    many = of(requests=3000, answers=3000, calls=900, invalid_calls=9)
    assert unproven(moments_of(many, many), 0.005) is None
    # The rarer they are, the larger a difference may be: of 50 calls among 2,000 requests nobody would notice.
    rare = of(requests=2000, answers=2000, calls=50, invalid_calls=1)
    assert unproven(moments_of(rare, rare), 0.005) is None
    least = of(requests=30)
    errors = unproven(moments_of(least, least), 0.005)
    assert errors is not None
    assert "errors: 0 of 30 beside 0 of 30" in errors.said


def binomial(random: Random, among: int, share: float) -> int:
    return sum(random.random() < share for _ in range(among))
