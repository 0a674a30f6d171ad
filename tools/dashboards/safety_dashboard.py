"""The safety dashboard: what filters find in prompts and answers, and their cost."""

from typing import Final

from observability.metrics import declarations as m
from tools.dashboards.dashboard import CHOSEN, MODEL, Dashboard, Section
from tools.dashboards.dashboard_kinds import ACTION_COLORS, OUTCOME_COLORS
from tools.dashboards.dashboard_tables import Column, table
from tools.dashboards.panels import RED, Panel, Query, lines, stat, steps
from tools.dashboards.percentiles import percentiles, spread
from tools.dashboards.promql import WHOLE_RANGE, or_zero, ratio

UID: Final = "penstock-safety"
_RULE: Final = ("rule", "action", "where")


def safety() -> Dashboard:
    """Make the safety dashboard."""
    return Dashboard(
        uid=UID,
        title="Penstock / Safety",
        description="What filters find in prompts and answers, what they do about it, and what that costs.",
        variables=(MODEL,),
        sections=(
            Section("Verdicts", (*_now(), *_verdicts())),
            Section("What it costs", _costs()),
        ),
        hours=6,
    )


def _now() -> tuple[Panel, ...]:
    shown = CHOSEN.over(WHOLE_RANGE)
    everything = shown.increase(m.REQUESTS)
    failed = or_zero(shown.increase(m.FILTER_VERDICTS, action="failed"), shown.increase(m.FILTER_VERDICTS))
    return (
        stat(
            "Verdicts",
            "Findings of rules, over the time that is shown.",
            shown.increase(m.FILTER_VERDICTS),
            "short",
            decimals=0,
            instant=True,
            width=6,
        ),
        stat(
            "Prompts refused",
            "The part of the requests whose prompt a filter refused.",
            ratio(shown.increase(m.REQUESTS, outcome="filtered"), everything),
            "percentunit",
            instant=True,
            width=6,
        ),
        stat(
            "Answers cut",
            "The part of the requests whose answer a filter ended.",
            ratio(shown.increase(m.REQUESTS, outcome="cut"), everything),
            "percentunit",
            instant=True,
            width=6,
        ),
        stat(
            "Rules that failed",
            "How often a rule could not judge a text: a guard model or a service did not answer.",
            failed,
            "short",
            thresholds=steps((1, RED)),
            decimals=0,
            instant=True,
            width=6,
        ),
    )


def _verdicts() -> tuple[Panel, ...]:
    shown = CHOSEN.over(WHOLE_RANGE)
    return (
        lines(
            "Verdicts by action",
            "`flag`: recorded; `redact`: replaced; `block`: refused or cut; `failed`: the rule could not judge.",
            [Query(CHOSEN.rate(m.FILTER_VERDICTS, "action"), "{{action}}")],
            "ops",
            stacked=True,
            colors=ACTION_COLORS,
        ),
        lines(
            "Verdicts by rule",
            "Which rule finds how much.",
            [Query(CHOSEN.rate(m.FILTER_VERDICTS, "rule"), "{{rule}}")],
            "ops",
            stacked=True,
        ),
        lines(
            "Refused and cut",
            "Requests that filters ended, by how.",
            [Query(CHOSEN.rate(m.REQUESTS, "outcome", outcome=("filtered", "cut")), "{{outcome}}")],
            "reqps",
            stacked=True,
            colors=OUTCOME_COLORS,
        ),
        table(
            "Rules",
            "Verdicts over the time that is shown.",
            {"rule": "Rule", "where": "Where", "action": "Action"},
            [Column("Verdicts", shown.increase(m.FILTER_VERDICTS, *_RULE))],
            sort_by="Verdicts",
        ),
    )


def _costs() -> tuple[Panel, ...]:
    return (
        percentiles(
            "Filters of prompts",
            "Time that filters of a prompt take, judges included.",
            CHOSEN,
            m.FILTER_SECONDS,
            width=12,
        ),
        spread("Filters of prompts, all of it", "Time that filters of a prompt take.", CHOSEN, m.FILTER_SECONDS),
        percentiles(
            "Answers held back",
            "The longest that text of an answer was held back by filters.",
            CHOSEN,
            m.FILTER_HELD_SECONDS,
            width=12,
        ),
        spread(
            "Answers held back, all of it",
            "The longest that text of an answer was held back.",
            CHOSEN,
            m.FILTER_HELD_SECONDS,
        ),
    )
