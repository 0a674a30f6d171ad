from hypothesis import given
from hypothesis import strategies as st

from routing.health.ramp import FIRST_SHARE, RAMP_SECONDS, Ramp


def test_the_share_grows_from_a_tenth_to_all() -> None:
    ramp = Ramp(100.0)
    assert ramp.share(100.0) == FIRST_SHARE
    assert ramp.share(100.0 + RAMP_SECONDS / 2) == (1.0 + FIRST_SHARE) / 2
    assert ramp.share(100.0 + RAMP_SECONDS) == ramp.share(1e9) == 1.0


@given(passed=st.floats(0.0, 2 * RAMP_SECONDS), decisions=st.integers(1, 500))
def test_decisions_are_spread_evenly(passed: float, decisions: int) -> None:
    ramp = Ramp(0.0)
    share = ramp.share(passed)
    taken = [ramp.takes_part(passed) for _ in range(decisions)]
    assert abs(sum(taken) - share * decisions) <= 1.0
    gap = longest = 0
    for took in taken:
        gap = 0 if took else gap + 1
        longest = max(longest, gap)
    assert longest <= 1.0 / share + 1e-6


@given(times=st.lists(st.floats(0.0, RAMP_SECONDS), min_size=1, max_size=300).map(sorted))
def test_over_the_ramp_it_gets_what_its_shares_add_up_to(times: list[float]) -> None:
    ramp = Ramp(0.0)
    taken = sum(ramp.takes_part(now) for now in times)
    assert abs(taken - sum(ramp.share(now) for now in times)) < 1.0 + 1e-6
