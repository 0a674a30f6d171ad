from hypothesis import given
from hypothesis import strategies as st

from routing.health.breaker import (
    CONSECUTIVE_FAULTS,
    FAULT_RATE,
    FORGIVEN_SECONDS,
    LEAST_OUTCOMES,
    LONGEST_OPEN_SECONDS,
    OPEN_SECONDS,
    ROW_SECONDS,
    WINDOW_SECONDS,
    Breaker,
)

#: Of (seconds since the last one, whether it is a success).
OUTCOMES = st.lists(st.tuples(st.floats(0.0, 3.0), st.booleans()), max_size=200)


def is_open(breaker: Breaker) -> bool:
    return breaker.is_open


def test_faults_in_a_row_open_it_and_a_success_between_does_not() -> None:
    breaker = Breaker()
    for number in range(CONSECUTIVE_FAULTS - 1):
        assert not breaker.failed(100.0 + number)
    breaker.succeeded(105.0)
    for number in range(CONSECUTIVE_FAULTS - 1):
        assert not breaker.failed(106.0 + number)
    assert breaker.failed(110.0)


def test_faults_with_long_pauses_are_no_row() -> None:
    breaker = Breaker()
    assert not any(breaker.failed(number * (ROW_SECONDS + 1.0)) for number in range(1, 50))


def test_a_rate_of_faults_opens_it_once_there_are_enough() -> None:
    breaker = Breaker()
    for number in range(LEAST_OUTCOMES // 2 - 1):
        breaker.succeeded(50.0 + number / 100)
        assert not breaker.failed(50.0 + number / 100)
    breaker.succeeded(51.0)
    assert breaker.failed(51.0)


def test_what_is_older_than_the_window_does_not_count() -> None:
    breaker = Breaker()
    for _ in range(1000):
        breaker.succeeded(0.0)
    later = WINDOW_SECONDS + 1.0
    for _ in range(LEAST_OUTCOMES // 2 - 1):
        breaker.succeeded(later)
        assert not breaker.failed(later)
    breaker.succeeded(later)
    assert breaker.failed(later)


@given(outcomes=OUTCOMES)
def test_it_opens_exactly_when_the_rule_says(outcomes: list[tuple[float, bool]]) -> None:
    breaker, now, seen = Breaker(), 1000.0, list[tuple[float, bool]]()
    row, last = 0, 0.0
    for passed, success in outcomes:
        now += passed
        seen.append((now, success))
        if success:
            breaker.succeeded(now)
            row = 0
            continue
        row, last = (row + 1 if now - last < ROW_SECONDS else 1), now
        recent = [ok for at, ok in seen if int(at) > int(now) - WINDOW_SECONDS]
        often = len(recent) >= LEAST_OUTCOMES and recent.count(False) >= FAULT_RATE * len(recent)
        assert breaker.failed(now) == (row >= CONSECUTIVE_FAULTS or often)


@given(successes=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=100))
def test_successes_never_open_it(successes: list[float]) -> None:
    breaker, now = Breaker(), 0.0
    for passed in successes:
        now += passed
        breaker.succeeded(now)
    assert not is_open(breaker)
    assert not breaker.failed(now)


@given(pauses=st.lists(st.floats(0.0, FORGIVEN_SECONDS - 0.1), min_size=1, max_size=12))
def test_each_relapse_doubles_the_time_up_to_a_bound(pauses: list[float]) -> None:
    breaker, now, expected = Breaker(), 1000.0, OPEN_SECONDS
    for pause in pauses:
        breaker.open(now)
        assert is_open(breaker)
        assert abs(breaker.remaining(now) - expected) < 1e-6
        now += breaker.remaining(now)
        assert breaker.remaining(now) == 0.0
        breaker.close(now)
        assert not is_open(breaker)
        now += pause
        expected = min(2 * expected, LONGEST_OPEN_SECONDS)


def test_a_failed_probe_is_a_relapse_and_a_long_good_time_is_none() -> None:
    breaker = Breaker()
    breaker.open(0.0)
    breaker.open(5.0)
    assert breaker.remaining(5.0) == 2 * OPEN_SECONDS
    breaker.close(15.0)
    breaker.open(15.0 + FORGIVEN_SECONDS)
    assert breaker.remaining(15.0 + FORGIVEN_SECONDS) == OPEN_SECONDS


def test_it_begins_with_a_clean_record_after_it_was_open() -> None:
    breaker = Breaker()
    for _ in range(100):
        breaker.failed(1.0)
    breaker.open(1.0)
    breaker.close(2.0)
    assert not breaker.failed(2.0)
