from gateway.scaling.facts.workers_heard import SETTLED_SECONDS, WAITED_SECONDS, WorkersHeard


def looks(heard: WorkersHeard, begin: float, counts: list[int]) -> list[bool]:
    return [heard.look(count, begin + second) for second, count in enumerate(counts)]


def test_after_some_seconds_those_that_report_are_all() -> None:
    assert looks(WorkersHeard(), 0.0, [1, 2, 2, 2, 2]) == [False, False, False, True, True]


def test_where_none_reports_nobody_was_heard() -> None:
    assert not any(looks(WorkersHeard(), 0.0, [0] * 9))


def test_one_that_reports_no_more_is_waited_for_until_it_must_be_gone() -> None:
    heard = WorkersHeard()
    looks(heard, 0.0, [2] * 9)
    found = looks(heard, 9.0, [1] * 12)
    assert found.index(True) == WAITED_SECONDS
    assert all(found[int(WAITED_SECONDS) :])


def test_after_an_outage_of_the_store_it_begins_anew() -> None:
    heard = WorkersHeard()
    looks(heard, 0.0, [2] * 9)
    found = looks(heard, 30.0, [1, 2, 2, 2, 2])
    assert found == [False] * int(SETTLED_SECONDS) + [True, True]
    # Not even after a long one is a worker forgotten that reported before.
    assert not any(looks(heard, 3000.0, [1] * 6))


def test_a_clock_that_goes_back_begins_it_anew_too() -> None:
    heard = WorkersHeard()
    looks(heard, 5000.0, [2] * 9)
    assert looks(heard, 0.0, [2, 2, 2, 2]) == [False, False, False, True]
