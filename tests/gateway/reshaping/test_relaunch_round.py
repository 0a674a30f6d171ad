"""What is decided about two pools that take each other's GPUs, from facts alone."""

import msgspec
import pytest

from gateway.config.models.reshape.settings import Reshape
from gateway.reshaping.change import Advice, Change
from gateway.reshaping.relaunch_facts import RelaunchFacts
from gateway.reshaping.relaunch_round import (
    relaunch_advice,
    relaunch_begun,
    relaunch_refusal,
    relaunch_sizes,
    relaunched,
)
from gateway.reshaping.wanted import Wanted
from protos.reshape import Span
from replicas.reshape.decide import ReshapeSettings
from replicas.reshape.relaunch import Kind, Relaunch, Sizes
from replicas.reshape.snapshot import ShapedReplica, Width

LONG = Wanted(known=True, needs=((100_000, 5.0),), short_rate=2.0, long_rate=0.05, short_tokens=2100.0)
SHORT = Wanted(known=True, short_rate=40.0, queued=True, short_tokens=2100.0)


def serving(count: int, width: int, longest: int = 0) -> list[ShapedReplica]:
    return [ShapedReplica(f"unix:/tp{width}-{number}", Span(0, width), longest, longest) for number in range(count)]


def facts(narrow: int = 8, wide: int = 0, *, longest: int = 0, seconds: float | None = 60.0) -> RelaunchFacts:
    return RelaunchFacts(
        narrow="n",
        wide="w",
        pools=Relaunch(
            narrow=Kind(gpus=1, most=8, exist=narrow, ready=narrow, start_seconds=seconds, start_timeout=300.0),
            wide=Kind(gpus=4, most=2, exist=wide, ready=wide, start_seconds=seconds, start_timeout=300.0),
        ),
        narrow_serving=serving(narrow, 1),
        wide_serving=serving(wide, 4, longest),
        widths={1: Width(74_000, 1.6), 4: Width(420_000, 0.5)},
        unknown="",
        least_wide=0,
        barred="",
    )


def advice(known: RelaunchFacts, wanted: Wanted, last: Change | None = None, now: float = 1000.0) -> Advice | None:
    return relaunch_advice(known, last, wanted, ReshapeSettings(), now)


def done(known: RelaunchFacts, shape: list[int], at: float = 0.0) -> Change:
    return relaunch_begun("m", known, None, shape, "as told", at).moved("done", at)


def test_long_requests_that_are_worth_a_start_have_one_made() -> None:
    found = advice(facts(), LONG)
    assert found is not None
    assert (found.group, found.before, found.after) == ("n/w", [1] * 8, [4, 1, 1, 1, 1])
    # 30 s to drain and 60 s to start, of four GPUs.
    assert found.gpu_seconds == 360.0
    # Where GPUs are free, nothing drains.
    free = advice(facts(narrow=3), LONG)
    assert free is not None
    assert free.gpu_seconds == 240.0


@pytest.mark.parametrize(
    ("known", "wanted"),
    [
        (facts(), msgspec.structs.replace(LONG, long_rate=0.0)),
        (facts(seconds=None), LONG),
        (facts(seconds=3600.0), LONG),
        (msgspec.structs.replace(facts(), barred="it is paused"), LONG),
        (msgspec.structs.replace(facts(), unknown="no replica of pool w was ever seen"), LONG),
        (facts(), msgspec.structs.replace(LONG, needs=((500_000, 5.0),))),
    ],
)
def test_what_is_not_worth_it_or_cannot_be_is_left(known: RelaunchFacts, wanted: Wanted) -> None:
    assert advice(known, wanted) is None


def test_a_wide_replica_goes_where_short_requests_want_its_gpus() -> None:
    known = facts(narrow=4, wide=1)
    last = done(known, [4, 1, 1, 1, 1])
    found = advice(known, SHORT, last)
    assert found is not None
    assert found.after == [1] * 8
    # It has not cooled down, or runs what only it holds.
    assert advice(known, SHORT, done(known, [4, 1, 1, 1, 1], at=990.0)) is None
    assert advice(facts(narrow=4, wide=1, longest=100_000), SHORT, last) is None


def test_a_change_that_failed_is_not_tried_at_once() -> None:
    known = facts()
    failed = relaunch_begun("m", known, None, [4, 1, 1, 1, 1], "as told", 900.0).moved("failed", 990.0, "as told")
    assert advice(known, LONG, failed) is None
    assert advice(known, LONG, failed, now=1030.0) is not None


def test_sizes_follow_from_the_last_change() -> None:
    known, off, apply = facts(), Reshape(mode="off"), Reshape(mode="apply")
    assert relaunch_sizes(known, None, off) is None
    assert relaunch_sizes(known, None, apply) == Sizes(wide=0, narrow=8)
    begun = relaunch_begun("m", known, None, [4, 1, 1, 1, 1], "as told", 0.0)
    assert relaunch_sizes(known, begun, off) == Sizes(wide=0, narrow=4, exactly=True)
    assert relaunch_sizes(known, begun.moved("transforming", 1.0), off) == Sizes(wide=1, narrow=4, exactly=True)
    assert relaunch_sizes(known, begun.moved("done", 2.0), off) == Sizes(wide=1, narrow=4)
    assert relaunch_refusal(known, begun, [1] * 8) == "change 1 of it is under way"
    assert "hold up to 2 replicas of 4, and nothing else" in relaunch_refusal(known, None, [4, 4, 4])


def test_replicas_that_are_just_replaced_are_not_waited_for_beyond_the_places() -> None:
    # A fifth narrow one stops, beside a wide one in four of eight places.
    last = done(facts(narrow=4), [4, 1, 1, 1, 1])
    change = relaunch_begun("m", facts(narrow=5, wide=1), last, [1] * 8, "as told", 100.0)
    change = relaunched(change, facts(narrow=4), 110.0)
    assert change.phase == "transforming"
    assert relaunch_sizes(facts(narrow=4), change, Reshape()) == Sizes(wide=0, narrow=8, exactly=True)
    assert relaunched(change, facts(narrow=8), 120.0).phase == "done"
