"""Prometheus' rule files: recording rules of the objectives, and the alerts."""

from collections.abc import Sequence
from typing import Any, Final

import yaml

from tools.dashboards.alert import Alert
from tools.dashboards.burn_alerts import burn_alerts
from tools.dashboards.fleet_alerts import fleet_alerts
from tools.dashboards.gateway_alerts import gateway_alerts
from tools.dashboards.objectives import Objectives
from tools.dashboards.rollout_alerts import rollout_alerts
from tools.dashboards.scaling_alerts import scaling_alerts

#: How often rules are evaluated.
INTERVAL: Final = "30s"
_HEAD: Final = "# Made by `python -m tools.dashboards`; changes are lost when it is run again.\n"


def all_alerts(objectives: Objectives) -> list[Alert]:
    """List every alert."""
    return [*burn_alerts(objectives), *fleet_alerts(), *scaling_alerts(), *rollout_alerts(), *gateway_alerts()]


def recording_rules(objectives: Objectives, interval: str = INTERVAL) -> str:
    """Write the file of recording rules."""
    groups = [
        _group(
            f"penstock-{objective.name.replace('_', '-')}",
            [{"record": name, "expr": expr} for name, expr in objective.recorded()],
            interval,
        )
        for objective in objectives.all
    ]
    return _yaml(groups)


def alert_rules(objectives: Objectives, interval: str = INTERVAL) -> str:
    """Write the file of alerts."""
    groups = (
        ("penstock-objectives", burn_alerts(objectives)),
        ("penstock-fleet", fleet_alerts()),
        ("penstock-scaling", scaling_alerts()),
        ("penstock-rollouts", rollout_alerts()),
        ("penstock-gateway", gateway_alerts()),
    )
    return _yaml([_group(name, [alert.rule() for alert in alerts], interval) for name, alerts in groups])


def _group(name: str, rules: Sequence[dict[str, Any]], interval: str) -> dict[str, Any]:
    return {"name": name, "interval": interval, "rules": list(rules)}


class _Dumper(yaml.SafeDumper):
    """Write texts of several lines as blocks, and indent lists."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists deeper than what they belong to."""
        super().increase_indent(flow, False)


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _yaml(groups: Sequence[dict[str, Any]]) -> str:
    return _HEAD + yaml.dump({"groups": list(groups)}, Dumper=_Dumper, sort_keys=False, width=118, allow_unicode=True)
