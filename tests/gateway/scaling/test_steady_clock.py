from hypothesis import given
from hypothesis import strategies as st

from gateway.scaling.steady_clock import JUMP_SECONDS, SteadyClock


@given(st.lists(st.tuples(st.floats(0.0, 100.0), st.floats(-1e5, 1e5)), max_size=50))
def test_it_never_goes_back_and_never_faster_than_it_may(moves: list[tuple[float, float]]) -> None:
    now = [50.0]
    clock = SteadyClock(lambda: now[0])
    clock.heard(1e9)
    last = clock.now()
    for passed, wrong in moves:
        now[0] += passed
        clock.heard(1e9 + now[0] - 50.0 + wrong)
        found = clock.now()
        assert 0.0 <= found - last <= passed + JUMP_SECONDS
        last = found


def test_small_differences_are_followed_and_jumps_are_told() -> None:
    now = [0.0]
    clock = SteadyClock(lambda: now[0])
    clock.heard(1000.0)
    for _ in range(60):
        clock.heard(1001.0)
    assert abs(clock.now() - 1001.0) < 0.01
    assert clock.warning == ""
    clock.heard(4600.0)
    assert clock.warning == "the store's clock has jumped by +3599 s, which is not followed"
    assert clock.now() < 1002.0
    assert clock.store_now() == 4600.0
    clock.heard(1001.0)
    assert clock.warning == ""
