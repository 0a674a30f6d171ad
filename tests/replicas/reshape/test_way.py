"""The way from one shape to another."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from protos.reshape import ReshapeOrder, ReshapePhase, Span
from replicas.reshape.host_group import problem_of, spans_of
from replicas.reshape.obstacles import difference
from replicas.reshape.order_problems import problem_with
from replicas.reshape.ordered_change import begun
from replicas.reshape.way import way
from tests.ordered_group import members_on

GPUS = 8
WHOLE = Span(0, GPUS)


@st.composite
def shapes(draw: st.DrawFn, whole: Span = WHOLE) -> tuple[Span, ...]:
    if whole.width == 1 or draw(st.booleans()):
        return (whole,)
    half = whole.width // 2
    return (*draw(shapes(Span(whole.start, half))), *draw(shapes(Span(whole.start + half, half))))


def test_four_become_two_pairs_by_two_changes() -> None:
    assert way(spans_of([1, 1, 1, 1]), spans_of([2, 2])) == [spans_of([2, 1, 1]), spans_of([2, 2])]
    assert way(spans_of([2, 1, 1]), spans_of([1, 1, 2])) == [spans_of([1, 1, 1, 1]), spans_of([1, 1, 2])]
    assert way(spans_of([4]), spans_of([2, 1, 1])) == [spans_of([2, 1, 1])]


@given(shapes(), shapes())
def test_each_step_is_a_change_that_replicas_follow(before: tuple[Span, ...], after: tuple[Span, ...]) -> None:
    steps = way(before, after)
    assert (steps[-1] if steps else before) == after
    for one, next_ in pairwise([before, *steps]):
        assert problem_of(next_, GPUS) == ""
        change = begun(1, "g", *difference(one, next_), members_on(list(one), GPUS), 0.0)
        order = ReshapeOrder(
            1, ReshapePhase.PREPARE, "g", change.before, change.after, change.participants, timeout_ms=1
        )
        assert problem_with(order, GPUS) == ""
