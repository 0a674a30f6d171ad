from hypothesis import given
from hypothesis import strategies as st

from gateway.fleets.discovery.last_good import EMPTY_GRACE_SECONDS, LastGood


def test_a_failure_leaves_what_is_known_for_ever() -> None:
    last = LastGood[int]()
    assert last.problem == "not asked yet"
    last.answered([1, 2], 0.0)
    assert last.problem == ""
    last.failed("no server")
    assert (list(last.held), last.problem) == ([1, 2], "no server")


def test_an_empty_answer_counts_once_it_has_lasted() -> None:
    last = LastGood[int]()
    last.answered([1], 0.0)
    last.answered([], 10.0)
    assert list(last.held) == [1]
    last.answered([], 10.0 + EMPTY_GRACE_SECONDS - 0.1)
    assert list(last.held) == [1]
    last.answered([], 10.0 + EMPTY_GRACE_SECONDS)
    assert list(last.held) == []


def test_the_grace_begins_anew_after_an_answer() -> None:
    last = LastGood[int]()
    last.answered([1], 0.0)
    last.answered([], 10.0)
    last.answered([2], 20.0)
    last.answered([], 30.0)
    last.answered([], 30.0 + EMPTY_GRACE_SECONDS - 1)
    assert list(last.held) == [2]


@given(st.lists(st.one_of(st.none(), st.lists(st.integers(), max_size=2)), max_size=30))
def test_what_is_held_was_answered_or_nothing_was_for_a_whole_grace(answers: list[list[int] | None]) -> None:
    last, known, empty_since = LastGood[int](), list[int](), None
    for now, answer in enumerate(answers):
        if answer is None:
            last.failed("x")
        else:
            last.answered(answer, 10.0 * now)
            if answer:
                known, empty_since = answer, None
            elif known:
                empty_since = 10.0 * now if empty_since is None else empty_since
                if 10.0 * now - empty_since >= EMPTY_GRACE_SECONDS:
                    known, empty_since = [], None
        assert list(last.held) == known
