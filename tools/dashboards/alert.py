"""What an alert is."""

from dataclasses import dataclass
from typing import Any, Literal

from tools.dashboards.conditions import Condition

#: Where operators find what to do: a heading for each alert.
RUNBOOK = "docs/alerts.md"


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One alert. `wait` is for how long it must hold; `summary` and `now` may be templates of Prometheus.

    `page`: somebody must act at once; `ticket`: within days.
    """

    name: str
    severity: Literal["page", "ticket"]
    condition: Condition
    wait: str
    summary: str
    #: How bad it is now.
    now: str = ""
    #: What that means, for whoever has not seen it before.
    meaning: str
    #: What to do, in steps.
    actions: tuple[str, ...]

    @property
    def full_name(self) -> str:
        """As it is raised."""
        return f"Penstock{self.name}"

    def rule(self) -> dict[str, Any]:
        """In the form of Prometheus' rule files."""
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
