"""Alerts on objectives: the error budget burns too fast."""

from collections.abc import Sequence
from functools import reduce

from tools.dashboards.alert import Alert
from tools.dashboards.conditions import Condition, above, both, either
from tools.dashboards.objectives import FAST, PERIOD_DAYS, SLOW, Burn, Objective, Objectives

_ACTIONS = {
    "availability": (
        "Open the dashboard *SLOs*, then *Fleet*: which outcome grows, and for which model?",
        "`replica_error`: see the alerts on replicas and the dashboard *Replicas*; `store_error`: see those on the "
        "store; `shed` and `timeout`: there is more work than the fleet takes, so add replicas, lower the limits of "
        "the tenant that floods, or raise `admission`; `internal_error`: read the log for the request ids.",
        "If it began with a change of the configuration or of a model's version, undo it.",
    ),
    "first_token": (
        "Open the dashboard *Latency*: does the time go to the queue, to the gateway or to the engine?",
        "Queue: see *PenstockQueueGrows*. Engine: look at *Replicas* for one that waits or is full, and at *Routing* "
        "for prompts that found nothing in the cache.",
        "Long prompts of one tenant can do this; *Tenants* shows whose tokens have grown.",
    ),
}


def burn_alerts(objectives: Objectives) -> list[Alert]:
    """Make two alerts for each objective: one that pages, one that opens a ticket."""
    found = []
    for objective in objectives.all:
        for burns, severity, speed, wait in ((FAST, "page", "Fast", "2m"), (SLOW, "ticket", "Slowly", "15m")):
            name = f"{objective.title.title().replace(' ', '')}BudgetBurns{speed}"
            spent = " or ".join(f"{burn.spent} % in {burn.long}" for burn in burns)
            found.append(
                Alert(
                    name=name,
                    severity="page" if severity == "page" else "ticket",
                    condition=_condition(objective, burns),
                    wait=wait,
                    summary=f"{objective.title} of {{{{ $labels.model }}}}: the error budget burns "
                    + ("fast." if severity == "page" else "too fast."),
                    now=f"{{{{ $value | humanizePercentage }}}} of what counts are {objective.bad}.",
                    meaning=f"{100 * objective.budget:g} % may be bad, over {PERIOD_DAYS} days. At this pace the "
                    f"budget loses {spent}.",
                    actions=_ACTIONS[objective.name],
                )
            )
    return found


def _condition(objective: Objective, burns: Sequence[Burn]) -> Condition:
    return reduce(either, (_burning(objective, burn) for burn in burns))


def _burning(objective: Objective, burn: Burn) -> Condition:
    limit = f"({burn.factor:g} * {objective.budget:g})"
    return both(above(objective.ratio_rule(burn.long), limit), above(objective.ratio_rule(burn.short), limit))
