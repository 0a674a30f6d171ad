"""Build a whole dashboard: sections of panels laid out on Grafana's grid, variables, and links to the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from observability.metrics import declarations as m
from observability.metrics.metric import Metric
from tools.dashboards.panels import DATASOURCE, Json, Panel
from tools.dashboards.promql import Scope

#: The schema of Grafana 11.6 and 12.0; other versions migrate it when they load it.
SCHEMA_VERSION: Final = 41
#: All dashboards with this tag link to one another.
TAG: Final = "penstock"
#: Selects the firing alerts of Penstock.
FIRING: Final = 'ALERTS{alertname=~"Penstock.+", alertstate="firing"}'
_COLUMNS: Final = 24


@dataclass(frozen=True)
class Variable:
    """A variable that chooses among the values of a metric's label."""

    label: str
    title: str
    metric: Metric
    #: Variables that restrict its values.
    within: tuple[str, ...] = ()

    @property
    def query(self) -> str:
        """Return the query in the form of Grafana's Prometheus data source."""
        selector = Scope({name: f'=~"${name}"' for name in self.within}).series(self.metric)
        if self.label not in self.metric.labels:
            raise ValueError(f"{self.metric.name} has no label {self.label}")
        return f"label_values({selector}, {self.label})"

    def json(self) -> Json:
        """Return the dashboard model's JSON: several values may be chosen, at first all."""
        return {
            "name": self.label,
            "label": self.title,
            "type": "query",
            "datasource": DATASOURCE,
            "definition": self.query,
            "query": {"qryType": 1, "query": self.query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
            "includeAll": True,
            "allValue": ".*",
            "multi": True,
            "refresh": 2,
            "regex": "",
            "sort": 1,
            "hide": 0,
            "skipUrlSync": False,
            "options": [],
        }


MODEL: Final = Variable("model", "Model", m.REPLICA_UP)
POOL: Final = Variable("pool", "Pool", m.REPLICA_UP, ("model",))
TENANT: Final = Variable("tenant", "Tenant", m.REQUESTS)
#: The scope of all dashboards' queries. A dashboard must have the variables for the labels of its queries' metrics.
CHOSEN: Final = Scope({name: f'=~"${name}"' for name in ("model", "pool")})
CHOSEN_TENANTS: Final = Scope({name: f'=~"${name}"' for name in ("model", "tenant")})


@dataclass(frozen=True)
class Section:
    """Panels under a heading, laid out in rows."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Dashboard:
    """A dashboard. `uid` is its address, `/d/UID`, and its file's name."""

    uid: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    sections: tuple[Section, ...]
    hours: int = 1

    @property
    def panels(self) -> tuple[Panel, ...]:
        """List all panels."""
        return tuple(panel for section in self.sections for panel in section.panels)

    def json(self) -> Json:
        """Return the JSON that Grafana loads."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": [TAG],
            "schemaVersion": SCHEMA_VERSION,
            "version": 1,
            "editable": True,
            "fiscalYearStartMonth": 0,
            "graphTooltip": 1,
            "timezone": "browser",
            "time": {"from": f"now-{self.hours}h", "to": "now"},
            "timepicker": {},
            "refresh": "30s",
            "links": [_links_to_others()],
            "annotations": {"list": [_alerts()]},
            "templating": {"list": [_datasource(), *(variable.json() for variable in self.variables)]},
            "panels": _laid_out(self.sections),
        }


def _laid_out(sections: Sequence[Section]) -> list[Json]:
    found: list[Json] = []
    y = 0
    for section in sections:
        place = {"h": 1, "w": _COLUMNS, "x": 0, "y": y}
        found.append(
            {
                "id": len(found) + 1,
                "type": "row",
                "title": section.title,
                "collapsed": False,
                "gridPos": place,
                "panels": [],
            }
        )
        x, y, height = 0, y + 1, 0
        for panel in section.panels:
            if x + panel.width > _COLUMNS:
                x, y, height = 0, y + height, 0
            found.append(panel.json(len(found) + 1, x, y))
            x, height = x + panel.width, max(height, panel.height)
        y += height
    return found


def _datasource() -> Json:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "includeAll": False,
        "multi": False,
        "refresh": 1,
        "regex": "",
        "hide": 0,
        "skipUrlSync": False,
        "options": [],
    }


def _links_to_others() -> Json:
    return {
        "title": "Penstock",
        "type": "dashboards",
        "tags": [TAG],
        "icon": "external link",
        "tooltip": "",
        "url": "",
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
    }


def _alerts() -> Json:
    return {
        "name": "Alerts",
        "datasource": DATASOURCE,
        "enable": True,
        "hide": False,
        "iconColor": "red",
        "expr": FIRING,
        "step": "60s",
        "titleFormat": "{{alertname}}",
        "tagKeys": "severity,model,pool,replica,tenant",
    }
