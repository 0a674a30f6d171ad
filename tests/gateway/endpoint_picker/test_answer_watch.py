"""What is learned of an answer, wherever it is cut."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from gateway.endpoint_picker.answer_watch import AnswerWatch
from tests.upstreams import ANSWER, END, EVENT

STREAM = b"".join(EVENT % b"word" for _ in range(500)) + END


@given(st.lists(st.integers(1, len(STREAM) - 1), max_size=20))
def test_a_streams_usage_is_found_wherever_it_is_cut(cuts: list[int]) -> None:
    watch, places = AnswerWatch(), sorted({0, len(STREAM), *cuts})
    for start, end in itertools.pairwise(places):
        watch.feed(STREAM[start:end])
    counts = watch.counts()
    assert counts is not None
    assert (counts.prompt, counts.completion, counts.cached) == (7, 3, 5)


def test_events_are_counted() -> None:
    watch = AnswerWatch()
    for _ in range(3):
        watch.feed(EVENT % b"x")
    assert watch.events == 3
    assert watch.counts() is None


def test_a_whole_answers_usage_is_found() -> None:
    watch = AnswerWatch()
    watch.feed(ANSWER)
    counts = watch.counts()
    assert counts is not None
    assert counts.completion == 3


@given(st.lists(st.binary(max_size=9000), max_size=10))
def test_nothing_is_an_error_and_little_is_kept(pieces: list[bytes]) -> None:
    watch = AnswerWatch()
    for piece in pieces:
        watch.feed(piece)
    watch.counts()
    assert len(watch._tail) <= 8192
