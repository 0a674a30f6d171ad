"""Judge a candidate by the measures of both versions.

Each comparison is a sequential test of its own, valid however often it is looked at: shares by `rate_ratio.py`,
latencies and trends by `regression.py`, hard bounds by `hard_bound.py`. Each has the same part of the error that the
whole rollout may make (Bonferroni), so that the number of measures makes no false rollbacks.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from routing.rollouts.measures.events import RATES, REQUESTS, TIMES
from routing.rollouts.measures.measures import Measures
from routing.rollouts.measures.slice import STRATA
from routing.rollouts.verdicts.assurance import unproven
from routing.rollouts.verdicts.blocks import Moment, moments_of, strata_of
from routing.rollouts.verdicts.bounds import Bounds
from routing.rollouts.verdicts.goal import judge_goal
from routing.rollouts.verdicts.latencies import compare_sizes, compare_trends
from routing.rollouts.verdicts.percentiles import compare_p99
from routing.rollouts.verdicts.rates import check_error_rate, compare_rates
from routing.rollouts.verdicts.reasons import described
from routing.rollouts.verdicts.verdict import Comparison, Verdict

_GUARDING: Final = [name for name, rate in RATES.items() if rate.guards]
#: Tests that can end a rollout: the errors' bound, shares, and of each time the whole, strata, trend and percentile.
TESTS: Final = 1 + len(_GUARDING) + len(TIMES) * (4 + len(STRATA))


def judge(baseline: Measures, candidate: Measures, bounds: Bounds, elapsed: float) -> Verdict:
    """Judge a candidate; pure, and valid at whatever time and however often it is asked.

    `elapsed` is the seconds since the candidate got its first requests.
    """
    moments = moments_of(baseline, candidate)
    found = tuple(_comparisons(baseline, candidate, moments, bounds))
    worse = [each for each in found if each.standing == "worse"]
    if worse:
        # A hard bound says more than a comparison.
        first = min(worse, key=lambda each: each.bound is None)
        return Verdict(kind="worse", reason=described(first), comparisons=found)
    leaning = next((each for each in found if each.standing == "leaning"), None)
    missing = _too_few(baseline, candidate, bounds, elapsed) or (leaning is None and _unlike(moments, found)) or ""
    inconclusive = missing or ("" if leaning is None else f"Not sure yet: {described(leaning)}")
    if bounds.goal is not None:
        return judge_goal(moments, bounds.goal, found, inconclusive)
    if inconclusive:
        short = bool(missing) and leaning is None
        return Verdict(kind="inconclusive", reason=inconclusive, comparisons=found, short=short)
    open_ = unproven(moments, bounds.worse)
    better = next((each for each in found if each.standing == "better"), None)
    if better is not None:
        return Verdict(kind="better", reason=described(better), comparisons=found, unproven=open_)
    reason = f"No measure is worse in {candidate.total(REQUESTS)} requests."
    return Verdict(kind="as_good", reason=reason, comparisons=found, unproven=open_)


def _comparisons(
    baseline: Measures, candidate: Measures, moments: Sequence[Moment], bounds: Bounds
) -> Iterator[Comparison]:
    error = bounds.false_rollbacks / TESTS
    yield check_error_rate(baseline, candidate, error, bounds.error_rate)
    found: list[Comparison | None] = []
    for measure in TIMES:
        found.append(compare_p99(baseline, candidate, moments, measure, error, bounds.p99_ratio))
        found.append(compare_sizes(moments, measure, None, error, bounds.slower))
        found += [
            compare_sizes(moments, measure, stratum, error, bounds.slower) for stratum in strata_of(moments, measure)
        ]
        found.append(compare_trends(moments, measure, error))
    found += [compare_rates(moments, measure, error, bounds.worse, good=False) for measure in _GUARDING]
    yield from filter(None, found)


def _too_few(baseline: Measures, candidate: Measures, bounds: Bounds, elapsed: float) -> str:
    """Say which version has had too few requests for anything to be said; empty: none."""
    ours, theirs, least = candidate.total(REQUESTS), baseline.total(REQUESTS), bounds.min_requests
    for name, requests in (("candidate", ours), *([] if bounds.alone else [("stable version", theirs)])):
        if requests < least:
            soon = f", about {elapsed * (least / requests - 1.0):.0f} s more at this pace" if requests else ""
            return f"The {name} has had {requests} of {least} requests{soon}."
    return ""


def _unlike(moments: Sequence[Moment], found: Sequence[Comparison]) -> str:
    """Say that there were too few like requests to compare times; empty: there were enough, or can be none."""
    if not any(moment.baseline.counts and moment.candidate.counts for moment in moments):
        # They never have requests at the same time when all move at once: there are the bounds alone.
        return ""
    whole = [each for each in found if each.measure in TIMES and each.stratum is None]
    if whole and all(each.standing == "too_few" for each in whole):
        return "The versions have had too few like requests at the same time to compare latencies."
    return ""
