"""Write the documentation's page of alerts: the meaning of each, and what to do."""

import re
import textwrap
from collections.abc import Iterator
from typing import Final

from tools.dashboards.alert import Alert
from tools.dashboards.burn_alerts import burn_alerts
from tools.dashboards.fleet_alerts import fleet_alerts
from tools.dashboards.gateway_alerts import gateway_alerts
from tools.dashboards.objectives import FAST, PERIOD_DAYS, SLOW, WINDOWS, Objectives
from tools.dashboards.rollout_alerts import rollout_alerts
from tools.dashboards.scaling_alerts import scaling_alerts

_HEAD: Final = """\
<!-- Made by `python -m tools.dashboards --runbook`; `make docs` makes it again. -->

# Alerts

What Prometheus raises with the rules in `deploy/observability/prometheus/rules`. `page`: somebody must act at once;
`ticket`: within days. The dashboards are those of `deploy/observability/grafana`.
"""
_LABEL: Final = re.compile(r"{{ \$labels\.(\w+) }}")
_WIDTH: Final = 120


def runbook(objectives: Objectives) -> str:
    """Return the page in Markdown."""
    return "\n".join(_page(objectives)) + "\n"


def _page(objectives: Objectives) -> Iterator[str]:
    yield _HEAD
    yield from _promises(objectives)
    sections = (
        ("Objectives", burn_alerts(objectives)),
        ("Replicas and saturation", fleet_alerts()),
        ("Pools that scale", scaling_alerts()),
        ("Rollouts and drift", rollout_alerts()),
        ("The gateway itself", gateway_alerts()),
    )
    for title, alerts in sections:
        yield f"\n## {title}"
        for alert in alerts:
            yield from _alert(alert)


def _promises(objectives: Objectives) -> Iterator[str]:
    yield f"What is promised, over {PERIOD_DAYS} days:\n"
    for objective in objectives.all:
        yield f"- **{objective.title}**: at most {100 * objective.budget:g} % {objective.bad}."
    yield "\n" + _wrapped(
        "Requests that are the client's own doing (`invalid`, `denied`, `limited`, `client_gone`), and those in the "
        "background that found no room (`deferred`), do not count. The "
        f"part that is bad is recorded over {', '.join(WINDOWS)}. An alert fires while both of its windows are above "
        "its factor of the error budget, as in [Google's workbook](https://sre.google/workbook/alerting-on-slos/):"
    )
    yield ""
    yield "| | long window | short window | burns faster than | of the budget is gone by then |"
    yield "| --- | --- | --- | --- | --- |"
    for speed, burns in (("page", FAST), ("ticket", SLOW)):
        for burn in burns:
            yield f"| {speed} | {burn.long} | {burn.short} | {burn.factor:g} times | {burn.spent} % |"


def _alert(alert: Alert) -> Iterator[str]:
    when = "at once" if alert.wait == "0m" else f"after {alert.wait}"
    yield f"\n### {alert.full_name}\n"
    summary = _LABEL.sub(r"`\1`", alert.summary)
    yield _wrapped(f"`{alert.severity}`, {when}. {summary} {alert.meaning}") + "\n"
    for number, action in enumerate(alert.actions, 1):
        yield _wrapped(f"{number}. {action}", "   ")


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
