from collections import Counter

import pytest

from gateway.rollouts.comparison.answer import Answer, Expected, ToolCall
from gateway.rollouts.comparison.difference import compare
from gateway.rollouts.comparison.difference_sums import counts_of, report_of


def test_comparisons_add_up() -> None:
    pairs = [
        (Answer(text="a b", finish="stop"), Answer(text="a b", finish="stop"), Expected(greedy=True)),
        (Answer(text="a b", finish="stop"), Answer(text="c d", finish="length"), Expected(greedy=True)),
        (Answer(text="x" * 9, finish="stop"), Answer(text="x" * 39, finish="odd"), Expected()),
        (Answer(calls=[ToolCall("t", "{}")]), Answer(calls=[ToolCall("t", "{")]), Expected(tools={"t": True})),
        (Answer(), None, Expected()),
        (None, None, Expected()),
    ]
    sums: Counter[str] = Counter()
    for baseline, candidate, expected in pairs:
        sums.update(counts_of(compare(baseline, candidate, expected), 0.8))
    assert all(isinstance(count, int) for count in sums.values())
    report = report_of(sums)
    assert (report.compared, report.candidate_failed, report.both_failed) == (4, 1, 1)
    assert (report.same, report.alike, report.greedy, report.greedy_same) == (0.25, 0.25, 2, 0.5)
    assert report.finishes == {"stop>length": 1, "stop>other": 1}
    assert report.calls == {"arguments": 1, "none": 3}
    assert report.broken == 1
    # The geometric mean of 1, 1, 4 and 3/4 (in characters and one more).
    assert report.length_ratio == pytest.approx((1 * 1 * 4 * (3 / 4)) ** 0.25, rel=1e-5)
    assert report.failure_rate == 0.2


def test_nothing_compared_says_nothing() -> None:
    report = report_of({})
    assert (report.compared, report.same, report.greedy_same, report.length_ratio, report.failure_rate) == (
        0,
        0.0,
        None,
        1.0,
        0.0,
    )
