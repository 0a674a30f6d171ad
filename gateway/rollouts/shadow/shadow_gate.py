"""Whether a shadow is over, and passed. Pure."""

from typing import Final

from gateway.rollouts.shadow.shadow_sums import ShadowReport
from routing.rollouts.facts import Passing
from routing.rollouts.settings import Rollout

#: Copies from which on failures are too many at once.
LEAST_ASKED: Final = 20


def judged(report: ShadowReport | None, settings: Rollout, elapsed: float) -> tuple[Passing | None, str]:
    """Say whether the shadow has passed, and why; None: it is not over. `elapsed` is its time so far, in seconds.

    It fails as soon as more copies fail than answers may, and else is over when it was held long enough and has enough
    comparisons, or inconclusive when it does not come to them in `shadow.timeout_seconds`.
    """
    least, most = max(1, settings.min_requests), settings.hold_seconds + settings.shadow.timeout_seconds
    if report is None:
        return _short(f"0 of {least} copies have been answered: none was made", elapsed, most)
    found, bounds = report.differences, settings.bounds
    asked = found.compared + found.candidate_failed
    if asked >= LEAST_ASKED and found.failure_rate > bounds.error_rate:
        return "failed", f"{found.failure_rate:.1%} of {asked} copies failed, more than {bounds.error_rate:.1%}"
    if asked < least:
        left_out = ", ".join(f"{count} {why}" for why, count in sorted(report.left_out.items()))
        words = f" (left out: {left_out})" if left_out else ""
        return _short(f"{asked} of {least} copies have been answered{words}", elapsed, most)
    if elapsed < settings.hold_seconds:
        return None, f"{settings.hold_seconds - elapsed:.0f} s of {settings.hold_seconds:.0f} s are left"
    if found.failure_rate > bounds.error_rate:
        return "failed", f"{found.failure_rate:.1%} of {asked} copies failed, more than {bounds.error_rate:.1%}"
    if found.alike < settings.shadow.alike:
        reason = f"{found.alike:.1%} of {found.compared} answers are alike, less than {settings.shadow.alike:.1%}"
        return "failed", reason
    return "passed", f"{found.alike:.1%} of {found.compared} answers are alike, {found.same:.1%} the same"


def _short(reason: str, elapsed: float, most: float) -> tuple[Passing | None, str]:
    return (None, reason) if elapsed < most else ("inconclusive", f"{reason}, after {elapsed:.0f} s")
