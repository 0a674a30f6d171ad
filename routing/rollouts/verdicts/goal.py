"""Judge an A/B test: which version is better in the measure that it is about."""

from collections.abc import Sequence
from math import log, log1p
from typing import Final

import msgspec

from routing.rollouts.measures.events import RATES
from routing.rollouts.verdicts.blocks import Moment
from routing.rollouts.verdicts.bounds import Goal
from routing.rollouts.verdicts.latencies import compare_sizes
from routing.rollouts.verdicts.rates import compare_rates, more_for_rate
from routing.rollouts.verdicts.reasons import described
from routing.rollouts.verdicts.still_needed import NOTHING, StillNeeded, Waits, requests_for, with_needed
from routing.rollouts.verdicts.verdict import Comparison, Kind, Standing, Verdict

#: The interval of the goal's ratio ever misses the true one with this probability.
GOAL_ERROR: Final = 0.05
#: The least that is waited for, as a part of what has been seen: intervals are not quite symmetric.
_LEAST_MORE: Final = 0.01

_TURNED: Final[dict[Standing, Standing]] = {"better": "worse", "worse": "better", "leaning": "as_good"}


def judge_goal(
    moments: Sequence[Moment],
    goal: Goal,
    guards: tuple[Comparison, ...],
    waits: Waits | None,
    requests: tuple[int, int],
) -> Verdict:
    """Judge by the goal, of which any difference counts, where no guard has spoken.

    `waits` says why that is too early, None: it is not; `requests` are those that the candidate and the baseline have
    had.
    """
    higher = goal.better == "higher"
    if goal.measure in RATES:
        found = compare_rates(moments, goal.measure, GOAL_ERROR, 0.0, good=higher)
    else:
        found = compare_sizes(moments, goal.measure, None, GOAL_ERROR, 0.0)
        if found is not None and higher:
            found = msgspec.structs.replace(found, standing=_TURNED.get(found.standing, found.standing))
    if found is None:
        reason = (
            waits.reason if waits is not None else f"Nothing has been counted yet that {goal.measure} could be told by."
        )
        return Verdict(kind="inconclusive", reason=reason, comparisons=guards, needed=None, needed_baseline=None)
    effect = f"a difference of {100 * goal.effect:g} %"
    kind: Kind
    needed: StillNeeded | None = NOTHING
    reason = described(found)
    if found.standing == "better" or found.standing == "worse":
        kind = found.standing
    elif _rules_out(found, goal.effect):
        kind, reason = "as_good", f"{reason} {effect.capitalize()} is ruled out."
    else:
        kind, needed = "inconclusive", requests_for(_more(found, moments, goal), *requests)
        if needed is not None:
            reason = f"{reason} {str(needed).capitalize()} would tell {effect}, or rule it out."
        else:
            reason = f"{reason} How many more requests would tell {effect} is not known yet."
    if waits is not None:
        needed = waits.needed if kind != "inconclusive" else needed
        kind, reason = "inconclusive", f"{waits.reason} Of the goal: {reason}"
    return with_needed(Verdict(kind=kind, reason=reason, comparisons=guards, goal=found), needed)


def _rules_out(found: Comparison, effect: float) -> bool:
    """Return whether a ratio that differs by the part `effect`, either way, is outside of the interval."""
    return found.low > 1.0 / (1.0 + effect) and found.high is not None and found.high < 1.0 + effect


def _more(found: Comparison, moments: Sequence[Moment], goal: Goal) -> float | None:
    """Return how many times as many requests besides will tell, if what is seen stays as it is; None: not known.

    The interval has to become narrow enough to leave out either equality or the difference of interest: it is the
    former for a ratio that is nearer to that, and the latter for one that is nearer to equality.
    """
    effect = log1p(goal.effect)
    seen = abs(log(found.ratio)) if found.ratio else 0.0
    margin = max(seen, effect - seen)
    more: float | None
    if found.low > 0.0 and found.high is not None:
        more = ((log(found.high) - log(found.low)) / 2.0 / margin) ** 2 - 1.0
    elif goal.measure in RATES:
        more = more_for_rate(moments, goal.measure, GOAL_ERROR, margin)
    else:
        return None
    return None if more is None else max(more, _LEAST_MORE)
