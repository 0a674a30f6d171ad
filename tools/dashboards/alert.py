"""Define an alert."""

from dataclasses import dataclass
from typing import Any, Literal

from tools.dashboards.conditions import Condition

#: The page of runbooks: a heading for each alert.
RUNBOOK = "docs/alerts.md"


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One alert. `wait` is how long its condition must hold; `summary` and `now` may be templates of Prometheus.

    `page`: somebody must act at once; `ticket`: within days.
    """

    name: str
    severity: Literal["page", "ticket"]
    condition: Condition
    wait: str
    summary: str
    #: The current state, in words.
    now: str = ""
    #: The meaning, for a reader who has not seen the alert before.
    meaning: str
    #: What to do, in steps.
    actions: tuple[str, ...]

    @property
    def full_name(self) -> str:
        """Return the name under which the alert is raised."""
        return f"Penstock{self.name}"

    def rule(self) -> dict[str, Any]:
        """Return the rule in the form of Prometheus' rule files."""
        return {
            "alert": self.full_name,
            "expr": self.condition.expr,
            "for": self.wait,
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "description": f"{self.now} {self.meaning}".strip(),
                "runbook": f"{RUNBOOK}#{self.full_name.lower()}",
            },
        }
