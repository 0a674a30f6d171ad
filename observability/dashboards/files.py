"""Everything that is generated, as files."""

import json
from typing import Final

from observability.dashboards.dashboard import Dashboard
from observability.dashboards.fleet import fleet
from observability.dashboards.gateway import gateway
from observability.dashboards.latency import latency
from observability.dashboards.objectives import Objectives
from observability.dashboards.replicas import replicas
from observability.dashboards.routing import routing
from observability.dashboards.rules import alert_rules, recording_rules
from observability.dashboards.safety import safety
from observability.dashboards.service_levels import service_levels
from observability.dashboards.tenants import tenants

DASHBOARDS: Final = "grafana/dashboards"
RECORDING: Final = "prometheus/rules/recording.yaml"
ALERTS: Final = "prometheus/rules/alerts.yaml"


def all_dashboards(objectives: Objectives) -> tuple[Dashboard, ...]:
    """Every dashboard."""
    return (
        fleet(objectives),
        latency(objectives),
        tenants(),
        routing(),
        replicas(),
        service_levels(objectives),
        safety(),
        gateway(),
    )


def files(objectives: Objectives) -> dict[str, str]:
    """Paths below one folder, and what is in them."""
    found = {
        f"{DASHBOARDS}/{dashboard.uid}.json": json.dumps(dashboard.json(), indent=2, ensure_ascii=False) + "\n"
        for dashboard in all_dashboards(objectives)
    }
    return found | {RECORDING: recording_rules(objectives), ALERTS: alert_rules(objectives)}
