"""Convert a rollout's settings for a judge, and its verdict for the stages."""

from routing.rollouts.facts import Compared
from routing.rollouts.settings import Rollout as Settings
from routing.rollouts.verdicts.bounds import Bounds, Goal
from routing.rollouts.verdicts.verdict import Verdict


def compared_of(verdict: Verdict, requests: int) -> Compared:
    """Return a verdict as the stages take it; the candidate has had so many `requests`."""
    return Compared(
        kind=verdict.kind,
        reason=verdict.reason,
        requests=requests,
        bound=verdict.bound_crossed,
        short=verdict.short,
        unproven=verdict.unproven,
    )


def bounds_of(settings: Settings) -> Bounds:
    """Return the bounds of a rollout as the judge takes them."""
    bounds, goal = settings.bounds, settings.goal
    return Bounds(
        error_rate=bounds.error_rate,
        p99_ratio=bounds.p99_ratio,
        slower=bounds.slower,
        worse=bounds.worse,
        false_rollbacks=bounds.false_rollbacks,
        min_requests=settings.min_requests,
        alone=tuple(settings.shares[:1]) == (1.0,),
        goal=None if goal is None else Goal(measure=goal.measure, better=goal.better, effect=goal.effect),
    )
