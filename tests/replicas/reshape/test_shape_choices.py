"""Shapes that are offered."""

import pytest

from protos.reshape import Span
from replicas.reshape.host_group import problem_of, spans_of
from replicas.reshape.shape_choices import place_choices, shape_choices


def names(*shape: int, widths: tuple[int, ...] = (1, 2, 4, 8), most: int = 64) -> list[list[int]]:
    gpus = sum(shape)
    found = shape_choices(spans_of(shape), gpus, [width for width in widths if width <= gpus], most)
    assert [problem_of(one, gpus) for one in found] == [""] * len(found)
    return [[span.width for span in one] for one in found]


def test_all_other_shapes_the_widest_first() -> None:
    assert names(1, 1, 1, 1) == [[4], [2, 2], [2, 1, 1], [1, 1, 2]]
    assert names(4) == [[2, 2], [2, 1, 1], [1, 1, 2], [1, 1, 1, 1]]
    # A host of eight GPUs can have 26 shapes.
    assert len(names(2, 2, 4)) == 25
    assert len({tuple(one) for one in names(8)}) == 25


def test_widths_that_engines_cannot_have_are_left_out() -> None:
    assert names(1, 1, 1, 1, widths=(1, 4)) == [[4]]
    assert names(4, 4, widths=(1, 4)) == [[4, 1, 1, 1, 1], [1, 1, 1, 1, 4], [1] * 8]
    assert names(1, 1, widths=(1,)) == []
    assert names(1, 1, widths=()) == []


def test_of_many_shapes_the_nearest_and_those_of_one_width() -> None:
    found = names(*[1] * 16, widths=(1, 2, 4, 8, 16), most=20)
    assert len(found) == 20
    for width in (2, 4, 8, 16):
        assert [width] * (16 // width) in found
    # All eight that one merge to TP2 leads to.
    assert sum(one.count(2) == 1 and len(one) == 15 for one in found) == 8


@pytest.mark.parametrize("spans", [(), (Span(0, 1), Span(2, 2)), (Span(0, 3), Span(3, 1))])
def test_a_group_whose_replicas_contradict_each_other(spans: tuple[Span, ...]) -> None:
    found = shape_choices(spans, 4, [1, 2, 4], 64)
    assert [[span.width for span in one] for one in found] == [[4], [2, 2], [2, 1, 1], [1, 1, 2], [1, 1, 1, 1]]


def test_no_power_of_two_has_no_shapes() -> None:
    assert shape_choices(spans_of([1, 1, 1]), 3, [1, 2], 64) == []


def test_places_of_two_kinds() -> None:
    assert place_choices(8, 1, 4) == [[4, 4], [4, 1, 1, 1, 1], [1] * 8]
    assert place_choices(6, 2, 4) == [[4, 2], [2, 2, 2]]
    assert place_choices(3, 1, 4) == [[1, 1, 1]]
