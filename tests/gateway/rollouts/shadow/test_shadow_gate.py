import pytest

from gateway.rollouts.comparison.difference_sums import report_of
from gateway.rollouts.shadow.shadow_gate import judged
from gateway.rollouts.shadow.shadow_sums import ShadowReport
from routing.rollouts.facts import Passing
from routing.rollouts.settings import Rollout, RolloutBounds, ShadowSettings

SETTINGS = Rollout(
    model="m",
    to="v2",
    plan="shadow",
    hold_seconds=60,
    min_requests=50,
    shadow=ShadowSettings(alike=0.9, timeout_seconds=600),
    bounds=RolloutBounds(error_rate=0.1),
)


def report(compared: int, alike: int, failed: int = 0, **left_out: int) -> ShadowReport:
    sums = {"compared": compared, "alike": alike, "failed:candidate": failed}
    return ShadowReport(
        model="m", epoch=1, differences=report_of(sums), seconds=(0.0, 0.0), left_out=left_out, examples=()
    )


@pytest.mark.parametrize(
    ("found", "elapsed", "passed", "reason"),
    [
        (None, 100, None, "0 of 50 copies have been answered: none was made"),
        (report(49, 49), 100, None, "49 of 50"),
        (report(60, 60), 59, None, "1 s of 60 s are left"),
        (report(60, 54), 60, "passed", "90.0% of 60 answers are alike"),
        (report(60, 53), 60, "failed", "less than 90.0%"),
        # Two of three failures may be chance, of twenty copies they are too many at once.
        (report(1, 1, failed=2), 1, None, "3 of 50"),
        (report(17, 17, failed=3), 1, "failed", "15.0% of 20 copies failed"),
        (report(54, 54, failed=6), 60, "passed", "alike"),
        # Nothing is waited for for ever.
        (report(49, 49, bound=9, away=1), 659, None, "49 of 50 copies have been answered (left out: 1 away, 9 bound)"),
        (report(49, 49, bound=9), 660, "inconclusive", "(left out: 9 bound), after 660 s"),
        (None, 660, "inconclusive", "none was made, after 660 s"),
        (report(60, 54), 9000, "passed", "alike"),
    ],
)
def test_a_shadow_ends_by_time_copies_and_failures(
    found: ShadowReport | None, elapsed: float, passed: Passing | None, reason: str
) -> None:
    told, why = judged(found, SETTINGS, elapsed)
    assert told == passed
    assert reason in why
