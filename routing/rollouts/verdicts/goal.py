"""Judge an A/B test: which version is better in the measure that it is about."""

from collections.abc import Sequence
from typing import Final

import msgspec

from routing.rollouts.measures.events import RATES
from routing.rollouts.verdicts.blocks import Moment
from routing.rollouts.verdicts.bounds import Goal
from routing.rollouts.verdicts.latencies import compare_sizes, more_for_size
from routing.rollouts.verdicts.rates import compare_rates, more_for_rate
from routing.rollouts.verdicts.reasons import described
from routing.rollouts.verdicts.still_needed import NOTHING, Waits, requests_for, with_needed
from routing.rollouts.verdicts.verdict import Comparison, Kind, Standing, Verdict

#: The interval of the goal's ratio ever misses the true one with this probability.
GOAL_ERROR: Final = 0.05

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
        more = more_for_rate(moments, goal.measure, GOAL_ERROR, goal.effect)
    else:
        found = compare_sizes(moments, goal.measure, None, GOAL_ERROR, 0.0)
        more = more_for_size(moments, goal.measure, GOAL_ERROR, goal.effect)
        if found is not None and higher:
            found = msgspec.structs.replace(found, standing=_TURNED.get(found.standing, found.standing))
    if found is None:
        reason = (
            waits.reason if waits is not None else f"Nothing has been counted yet that {goal.measure} could be told by."
        )
        return Verdict(kind="inconclusive", reason=reason, comparisons=guards, needed=None, needed_baseline=None)
    kind: Kind = "inconclusive"
    if found.standing == "better" or found.standing == "worse":
        kind = found.standing
    reason, needed = described(found), requests_for(more, *requests)
    if kind != "inconclusive":
        needed = NOTHING
    elif needed == NOTHING:
        kind, reason = "as_good", f"{reason} A difference of {100 * goal.effect:g} % would have been seen."
    elif needed is not None:
        reason = f"{reason} {str(needed).capitalize()} would tell a difference of {100 * goal.effect:g} %."
    else:
        reason = f"{reason} How many more requests would tell a difference of {100 * goal.effect:g} % is not known yet."
    if waits is not None:
        needed = waits.needed if kind != "inconclusive" else needed
        kind, reason = "inconclusive", f"{waits.reason} Of the goal: {reason}"
    return with_needed(Verdict(kind=kind, reason=reason, comparisons=guards, goal=found), needed)
