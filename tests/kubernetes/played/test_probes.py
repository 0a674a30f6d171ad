"""Answers of probes come to a verdict by their thresholds."""

from hypothesis import given
from hypothesis import strategies as st

from tests.kubernetes.played.probes import Watched


def test_a_verdict_changes_after_as_many_answers_as_the_probe_says() -> None:
    watched = Watched({"failureThreshold": 2, "successThreshold": 2}, False)
    assert [watched.count(passed) for passed in (True, False, True, True)] == [False, False, False, True]
    assert watched.verdict is True
    assert [watched.count(passed) for passed in (False, True, False, False)] == [False, False, False, True]
    assert watched.verdict is False


def test_a_startup_probe_fails_though_it_never_passed() -> None:
    watched = Watched({"failureThreshold": 3}, None)
    assert [watched.count(False) for _ in range(3)] == [False, False, True]


@given(st.lists(st.booleans()), st.integers(1, 4), st.integers(1, 4))
def test_a_change_follows_a_run_of_answers(answers: list[bool], failures: int, successes: int) -> None:
    watched = Watched({"failureThreshold": failures, "successThreshold": successes}, False)
    for at, passed in enumerate(answers):
        if watched.count(passed):
            run = successes if passed else failures
            assert answers[at + 1 - run : at + 1] == [passed] * run
