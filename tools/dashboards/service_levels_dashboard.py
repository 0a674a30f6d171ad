"""The service-level dashboard: objectives, the rest of the error budgets, and their burn rates."""

from typing import Final

from observability.metrics import declarations as m
from tools.dashboards.dashboard import CHOSEN, MODEL, Dashboard, Section
from tools.dashboards.dashboard_kinds import FAILURES, OUTCOME_COLORS
from tools.dashboards.objectives import FAST, PERIOD, PERIOD_DAYS, SLOW, Objective, Objectives
from tools.dashboards.panels import GREEN, ORANGE, RED, YELLOW, Panel, Query, lines, stat, steps

UID: Final = "penstock-slo"
#: Recorded series have the model's label too.
_CHOSEN: Final = '{model=~"$model"}'


def service_levels(objectives: Objectives) -> Dashboard:
    """Make the service-level dashboard."""
    return Dashboard(
        uid=UID,
        title="Penstock / SLOs",
        description="What is promised, what is left of the error budgets, and how fast they burn.",
        variables=(MODEL,),
        sections=(
            *(Section(_promise(objective), _panels(objective)) for objective in objectives.all),
            Section("What went wrong", _failures()),
        ),
        hours=24,
    )


def _promise(objective: Objective) -> str:
    return f"{objective.title}: at most {100 * objective.budget:g} % {objective.bad}, over {PERIOD_DAYS} days"


def _recorded(name: str) -> str:
    return f"{name}{_CHOSEN}"


def _panels(objective: Objective) -> tuple[Panel, ...]:
    budget, target = objective.budget, objective.target
    over_period = _recorded(objective.ratio_rule(PERIOD))
    windows = tuple(dict.fromkeys(window for burn in (*FAST, *SLOW) for window in (burn.long, burn.short)))
    return (
        stat(
            "Reached",
            f"The good part over {PERIOD_DAYS} days (or since there is data), of the model where it is worst.",
            f"1 - max({over_period})",
            "percentunit",
            thresholds=steps((target - budget, ORANGE), (target, GREEN), base=RED),
            decimals=3,
            width=4,
        ).sized(4, 8),
        stat(
            "Budget left",
            f"What is left of the error budget of {PERIOD_DAYS} days, of the model where least is; below 0 the promise "
            "is broken.",
            f"1 - max({over_period}) / {budget:g}",
            "percentunit",
            thresholds=steps((0, ORANGE), (0.25, YELLOW), (0.5, GREEN), base=RED),
            decimals=1,
            width=4,
        ).sized(4, 8),
        lines(
            "Burn rate by window",
            "How many times as fast as it may the budget burns; 1 spends it in just the period. Alerts fire where a "
            f"long and its short window are both above their factor: {_factors()}. The worst model.",
            [Query(f"max({_recorded(objective.ratio_rule(window))}) / {budget:g}", window) for window in windows],
            "suffix: x",
            thresholds=steps((1, YELLOW), (FAST[1].factor, ORANGE), (FAST[0].factor, RED)),
            width=16,
        ),
        lines(
            "Budget left by model",
            "How the budget of each model is used up.",
            [Query(f"1 - {over_period} / {budget:g}", "{{model}}")],
            "percentunit",
            least=None,
            most=1,
            width=12,
        ),
        lines(
            "Bad part by model",
            f"The part that is bad ({objective.bad}), over the last hour.",
            [Query(_recorded(objective.ratio_rule("1h")), "{{model}}")],
            "percentunit",
            thresholds=steps((budget, ORANGE)),
            width=12,
        ),
    )


def _factors() -> str:
    return ", ".join(f"{burn.factor:g} over {burn.long} and {burn.short}" for burn in (*FAST, *SLOW))


def _failures() -> tuple[Panel, ...]:
    return (
        lines(
            "Failures by outcome",
            "Requests that the service failed.",
            [Query(CHOSEN.rate(m.REQUESTS, "outcome", outcome=FAILURES), "{{outcome}}")],
            "reqps",
            stacked=True,
            colors=OUTCOME_COLORS,
            width=12,
        ),
        lines(
            "Failures by model",
            "The same by the model that was asked for.",
            [Query(CHOSEN.rate(m.REQUESTS, "model", outcome=FAILURES), "{{model}}")],
            "reqps",
            stacked=True,
            width=12,
        ),
    )
