import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.reshape import Span
from replicas.reshape.host_group import merges, problem_of


@pytest.mark.parametrize(
    ("spans", "gpus", "problem"),
    [
        ([(0, 4)], 4, ""),
        ([(0, 2), (2, 1), (3, 1)], 4, ""),
        ([(0, 1)], 3, "a group has a power of two of GPUs, not 3"),
        ([(0, 3), (3, 1)], 4, "TP3 is no power of two"),
        ([(0, 1), (1, 2), (3, 1)], 4, "TP2 cannot begin at GPU 1"),
        ([(0, 2), (0, 4)], 4, "GPU 0 belongs to two replicas"),
        ([(0, 1), (2, 2)], 4, "GPU 1 belongs to no replica"),
        ([(0, 2)], 4, "GPU 2 belongs to no replica"),
        ([(0, 8)], 4, "the replicas end at GPU 8 of 4"),
    ],
)
def test_what_is_wrong_with_a_group_is_said(spans: list[tuple[int, int]], gpus: int, problem: str) -> None:
    assert problem_of([Span(*span) for span in spans], gpus) == problem


@st.composite
def legal(draw: st.DrawFn, gpus: int = 8) -> list[Span]:
    spans = [Span(0, gpus)]
    for _ in range(draw(st.integers(0, 6))):
        wide = [span for span in spans if span.width > 1]
        if wide:
            one = draw(st.sampled_from(wide))
            spans.remove(one)
            spans += one.halves(one.width // 2)
    return sorted(spans)


@given(legal(), st.sampled_from([2, 4, 8]))
def test_every_merge_and_its_way_back_are_legal(spans: list[Span], width: int) -> None:
    assert not problem_of(spans, 8)
    for merged, inside in merges(spans, 8, width):
        after = [span for span in spans if span not in inside] + [merged]
        assert not problem_of(after, 8)
        back = [span for span in after if span != merged] + [*merged.halves(1)]
        assert not problem_of(back, 8)
