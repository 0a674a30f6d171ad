"""Judge an A/B test: which version is better in the measure that it is about."""

from collections.abc import Sequence
from typing import Final

import msgspec

from routing.rollouts.measures.events import RATES
from routing.rollouts.verdicts.blocks import Moment
from routing.rollouts.verdicts.bounds import Goal
from routing.rollouts.verdicts.latencies import compare_sizes, needed_for_size
from routing.rollouts.verdicts.rates import compare_rates, needed_for_rate
from routing.rollouts.verdicts.reasons import described
from routing.rollouts.verdicts.verdict import Comparison, Kind, Standing, Verdict

#: The interval of the goal's ratio ever misses the true one with this probability.
GOAL_ERROR: Final = 0.05

_TURNED: Final[dict[Standing, Standing]] = {"better": "worse", "worse": "better", "leaning": "as_good"}


def judge_goal(moments: Sequence[Moment], goal: Goal, guards: tuple[Comparison, ...], not_yet: str) -> Verdict:
    """Judge by the goal, of which any difference counts, where no guard has spoken.

    `not_yet` says why that is too early.
    """
    higher = goal.better == "higher"
    if goal.measure in RATES:
        found = compare_rates(moments, goal.measure, GOAL_ERROR, 0.0, good=higher)
        needed = needed_for_rate(moments, goal.measure, GOAL_ERROR, goal.effect)
    else:
        found = compare_sizes(moments, goal.measure, None, GOAL_ERROR, 0.0)
        needed = needed_for_size(moments, goal.measure, GOAL_ERROR, goal.effect)
        if found is not None and higher:
            found = msgspec.structs.replace(found, standing=_TURNED.get(found.standing, found.standing))
    if found is None:
        reason = not_yet or f"Nothing has been counted yet that {goal.measure} could be told by."
        return Verdict(kind="inconclusive", reason=reason, comparisons=guards)
    kind: Kind = "inconclusive"
    if found.standing == "better" or found.standing == "worse":
        kind = found.standing
    reason = described(found)
    if not_yet:
        kind, reason = "inconclusive", not_yet
    elif kind == "inconclusive" and needed == 0:
        kind, reason = "as_good", f"{reason} A difference of {goal.effect:.0%} would have been seen."
    elif kind == "inconclusive" and needed:
        reason = f"{reason} About {needed} more requests would tell a difference of {goal.effect:.0%}."
    return Verdict(kind=kind, reason=reason, comparisons=guards, goal=found, needed=needed)
