"""Judge a candidate by the measures of both versions.

Each comparison is a sequential test of its own, valid however often it is looked at: shares by `rate_ratio.py`,
latencies and trends by `regression.py`, hard bounds by `hard_bound.py`. Each has the same part of the error that the
whole rollout may make (Bonferroni), so that the number of measures makes no false rollbacks.
"""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

import msgspec

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
from routing.rollouts.verdicts.still_needed import StillNeeded, Waits, requests_for, with_needed
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
    requests = candidate.total(REQUESTS), baseline.total(REQUESTS)
    leaning = [each for each in found if each.standing == "leaning"]
    missing = _too_few(requests, bounds, elapsed) or (None if leaning else _unlike(moments, found, requests))
    waits = missing or (_looks_worse(leaning, requests) if leaning else None)
    if bounds.goal is not None:
        return judge_goal(moments, bounds.goal, found, waits, requests)
    if waits is not None:
        verdict = Verdict(kind="inconclusive", reason=waits.reason, comparisons=found, short=not leaning)
        return with_needed(verdict, waits.needed)
    better = next((each for each in found if each.standing == "better"), None)
    if better is not None:
        verdict = Verdict(kind="better", reason=described(better), comparisons=found)
    else:
        reason = f"No measure is worse in {requests[0]} requests."
        verdict = Verdict(kind="as_good", reason=reason, comparisons=found)
    open_ = unproven(moments, bounds.worse)
    if open_ is None:
        return verdict
    needed = requests_for(open_.more, *requests)
    tail = f"; {needed} would" if needed is not None else "; how many more requests would is not known yet"
    return with_needed(msgspec.structs.replace(verdict, unproven=f"{open_.said}{tail}"), needed)


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


def _looks_worse(leaning: Sequence[Comparison], requests: tuple[int, int]) -> Waits:
    """Say what looks worse and is not sure: what will be the soonest."""
    soonest = min(leaning, key=lambda each: inf if each.more is None else each.more)
    needed = requests_for(soonest.more, *requests)
    if needed is None:
        more = "How many more requests would tell is not known yet."
    else:
        more = f"If that stays so, {needed} will tell."
    return Waits(f"Not sure yet: {described(soonest)} {more}", needed)


def _too_few(requests: tuple[int, int], bounds: Bounds, elapsed: float) -> Waits | None:
    """Say which version has had too few requests for anything to be said; None: none."""
    (ours, theirs), least = requests, bounds.min_requests
    needed = StillNeeded(max(least - ours, 0), 0 if bounds.alone else max(least - theirs, 0))
    for name, had in (("candidate", ours), *([] if bounds.alone else [("stable version", theirs)])):
        if had < least:
            soon = f", about {elapsed * (least / had - 1.0):.0f} s more at this pace" if had else ""
            return Waits(f"The {name} has had {had} of {least} requests{soon}.", needed)
    return None


def _unlike(moments: Sequence[Moment], found: Sequence[Comparison], requests: tuple[int, int]) -> Waits | None:
    """Say that there were too few like requests to compare times; None: there were enough, or can be none."""
    if not any(moment.baseline.counts and moment.candidate.counts for moment in moments):
        # They never have requests at the same time when all move at once: there are the bounds alone.
        return None
    whole = [each for each in found if each.measure in TIMES and each.stratum is None]
    if whole and all(each.standing == "too_few" for each in whole):
        known = [each.more for each in whole if each.more is not None]
        needed = requests_for(min(known), *requests) if known else None
        more = "how many more it takes is not known yet" if needed is None else f"{needed} should do"
        return Waits(
            f"The versions have had too few like requests at the same time to compare latencies; {more}.", needed
        )
    return None
