"""List every generated file and its content."""

import json
from typing import Final

from tools.dashboards.dashboard import Dashboard
from tools.dashboards.fleet_dashboard import fleet
from tools.dashboards.gateway_dashboard import gateway
from tools.dashboards.latency_dashboard import latency
from tools.dashboards.objectives import Objectives
from tools.dashboards.replicas_dashboard import replicas
from tools.dashboards.rollouts_dashboard import rollouts
from tools.dashboards.routing_dashboard import routing
from tools.dashboards.rules import alert_rules, recording_rules
from tools.dashboards.safety_dashboard import safety
from tools.dashboards.scaling_dashboard import scaling
from tools.dashboards.service_levels_dashboard import service_levels
from tools.dashboards.tenants_dashboard import tenants

DASHBOARDS: Final = "grafana/dashboards"
RECORDING: Final = "prometheus/rules/recording.yaml"
ALERTS: Final = "prometheus/rules/alerts.yaml"


def all_dashboards(objectives: Objectives) -> tuple[Dashboard, ...]:
    """Make every dashboard."""
    return (
        fleet(objectives),
        latency(objectives),
        tenants(),
        routing(),
        replicas(),
        scaling(),
        rollouts(),
        service_levels(objectives),
        safety(),
        gateway(),
    )


def files(objectives: Objectives) -> dict[str, str]:
    """Return paths below one folder, with their contents."""
    found = {
        f"{DASHBOARDS}/{dashboard.uid}.json": json.dumps(dashboard.json(), indent=2, ensure_ascii=False) + "\n"
        for dashboard in all_dashboards(objectives)
    }
    return found | {RECORDING: recording_rules(objectives), ALERTS: alert_rules(objectives)}
