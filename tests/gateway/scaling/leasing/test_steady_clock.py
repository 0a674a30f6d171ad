from hypothesis import given
from hypothesis import strategies as st

from gateway.scaling.leasing.steady_clock import FOLLOW_SECONDS, JUMP_SECONDS, SteadyClock


@given(st.lists(st.tuples(st.floats(0.0, 100.0), st.floats(-1e5, 1e5)), max_size=50))
def test_it_goes_back_or_faster_than_it_may_only_where_it_says_so(moves: list[tuple[float, float]]) -> None:
    now = [50.0]
    clock = SteadyClock(lambda: now[0])
    clock.heard(1e9)
    last = clock.now()
    for passed, wrong in moves:
        now[0] += passed
        moved = clock.heard(1e9 + now[0] - 50.0 + wrong)
        found = clock.now()
        if not moved:
            assert 0.0 <= found - last <= passed + JUMP_SECONDS
        last = found


@given(st.floats(-1e6, 1e6).filter(lambda jump: abs(jump) > 3.0), st.floats(0.5, 5.0))
def test_a_jump_is_followed_once_it_has_stayed(jump: float, every: float) -> None:
    now = [50.0]
    clock = SteadyClock(lambda: now[0])
    clock.heard(1e9)
    moves = []
    while now[0] < 50.0 + FOLLOW_SECONDS + 3 * every:
        now[0] += every
        moves.append(clock.heard(1e9 + now[0] - 50.0 + jump))
        if not any(moves):
            assert abs(clock.now() - (1e9 + now[0] - 50.0)) < 0.01
            assert "which is followed once it has stayed so for 60 s" in clock.warning
    assert [round(moved - jump, 3) for moved in moves if moved] == [0.0]
    assert abs(clock.now() - clock.store_now()) < 0.01
    assert clock.warning == ""


def test_a_clock_that_jumps_about_is_not_followed() -> None:
    now = [50.0]
    clock = SteadyClock(lambda: now[0])
    clock.heard(1000.0)
    for turn in range(300):
        now[0] += 1.0
        assert clock.heard(1000.0 + now[0] - 50.0 + 1000.0 * (1 + turn // 40 % 2)) == 0.0


def test_small_differences_are_followed_and_jumps_are_told() -> None:
    now = [0.0]
    clock = SteadyClock(lambda: now[0])
    clock.heard(1000.0)
    for _ in range(60):
        clock.heard(1001.0)
    assert abs(clock.now() - 1001.0) < 0.01
    assert clock.warning == ""
    clock.heard(4600.0)
    assert clock.warning.startswith("the store's clock has jumped by +3599 s, which is followed")
    assert clock.now() < 1002.0
    assert clock.store_now() == 4600.0
    clock.heard(1001.0)
    assert clock.warning == ""
