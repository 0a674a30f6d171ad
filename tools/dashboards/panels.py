"""Build panels in Grafana's JSON model: https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

Json = dict[str, Any]

DATASOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}
GREEN: Final = "green"
YELLOW: Final = "#EAB839"
ORANGE: Final = "orange"
RED: Final = "red"
BLUE: Final = "blue"
PURPLE: Final = "purple"
GREY: Final = "#8e8e8e"
#: Points of a heatmap's time axis: finer ones are not visible, and cost queries.
HEATMAP_POINTS: Final = 120
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Query:
    """PromQL and the legend of its series. `instant`: only the last moment of the shown time."""

    expr: str
    legend: str = ""
    instant: bool = False
    format: str = "time_series"


@dataclass(frozen=True)
class Panel:
    """One panel. `defaults` apply to all its fields, `overrides` change them for single ones."""

    kind: str
    title: str
    description: str
    queries: tuple[Query, ...]
    options: Json
    defaults: Json
    width: int
    height: int
    overrides: tuple[Json, ...] = ()
    more: Json = field(default_factory=dict)

    def sized(self, width: int, height: int | None = None) -> "Panel":
        """Return the same panel, `width` of 24 columns wide."""
        return replace(self, width=width, height=height or self.height)

    def json(self, number: int, x: int, y: int) -> Json:
        """Return the panel's JSON at a position."""
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "datasource": DATASOURCE,
            "gridPos": {"h": self.height, "w": self.width, "x": x, "y": y},
            "targets": [_target(query, letter) for query, letter in zip(self.queries, _LETTERS, strict=False)],
            "fieldConfig": {"defaults": self.defaults, "overrides": list(self.overrides)},
            "options": self.options,
            **self.more,
        }


def _target(query: Query, letter: str) -> Json:
    return {
        "refId": letter,
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": query.expr,
        "format": query.format,
        "instant": query.instant,
        "legendFormat": query.legend or "__auto",
        "range": not query.instant,
    }


def steps(*changes: tuple[float, str], base: str = GREEN) -> Json:
    """Make thresholds: `base` below the first step, then each step's colour from its value on."""
    first: Json = {"color": base, "value": None}
    return {"mode": "absolute", "steps": [first, *({"color": color, "value": value} for value, color in changes)]}


def colored(colors: Mapping[str, str]) -> tuple[Json, ...]:
    """Assign fixed colours to series by their names."""
    return tuple(
        {
            "matcher": {"id": "byName", "options": name},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}],
        }
        for name, color in colors.items()
    )


def lines(
    title: str,
    description: str,
    queries: Sequence[Query],
    unit: str,
    *,
    stacked: bool = False,
    colors: Mapping[str, str] | None = None,
    thresholds: Json | None = None,
    least: float | None = 0,
    most: float | None = None,
    width: int = 8,
) -> Panel:
    """Plot values over time; `thresholds` are drawn as lines."""
    custom = {
        "drawStyle": "line",
        "lineInterpolation": "linear",
        "lineWidth": 1,
        "fillOpacity": 40 if stacked else 8,
        "gradientMode": "none",
        "showPoints": "auto",
        "pointSize": 4,
        "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
        "scaleDistribution": {"type": "linear"},
        "axisPlacement": "auto",
        "thresholdsStyle": {"mode": "dashed" if thresholds else "off"},
    }
    defaults: Json = {
        "unit": unit,
        "color": {"mode": "palette-classic"},
        "custom": custom,
        "mappings": [],
        "thresholds": thresholds or steps(),
    }
    defaults |= {name: bound for name, bound in (("min", least), ("max", most)) if bound is not None}
    legend = {"displayMode": "table", "placement": "bottom", "showLegend": True, "calcs": ["lastNotNull", "max"]}
    options = {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
    return Panel("timeseries", title, description, tuple(queries), options, defaults, width, 8, colored(colors or {}))


def stat(
    title: str,
    description: str,
    expr: str,
    unit: str,
    *,
    thresholds: Json | None = None,
    decimals: int | None = None,
    instant: bool = False,
    width: int = 3,
) -> Panel:
    """Show one number; unless `instant`, with its history behind it."""
    defaults: Json = {
        "unit": unit,
        "color": {"mode": "thresholds"} if thresholds else {"mode": "fixed", "fixedColor": "text"},
        "mappings": [],
        "thresholds": thresholds or steps(),
    }
    if decimals is not None:
        defaults["decimals"] = decimals
    options = {
        "graphMode": "none" if instant else "area",
        "colorMode": "value",
        "justifyMode": "auto",
        "orientation": "auto",
        "textMode": "value",
        "wideLayout": True,
        "showPercentChange": False,
        "percentChangeColorMode": "standard",
        "reduceOptions": {"values": False, "calcs": ["lastNotNull"], "fields": ""},
    }
    return Panel("stat", title, description, (Query(expr, title, instant),), options, defaults, width, 4)


def heatmap(title: str, description: str, expr: str, *, unit: str = "s", width: int = 12) -> Panel:
    """Show how a histogram's observations are distributed over time."""
    color = {
        "mode": "scheme",
        "scheme": "Spectral",
        "fill": "dark-orange",
        "scale": "exponential",
        "exponent": 0.5,
        "steps": 64,
        "reverse": True,
    }
    options = {
        "calculate": False,
        "color": color,
        "cellGap": 1,
        "cellValues": {"unit": "short"},
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "rowsFrame": {"layout": "auto"},
        "showValue": "never",
        "tooltip": {"mode": "single", "yHistogram": True, "showColorScale": True},
        "yAxis": {"unit": unit, "axisPlacement": "left", "reverse": False},
    }
    defaults: Json = {"custom": {"scaleDistribution": {"type": "linear"}}}
    query = Query(expr, "{{le}}", format="heatmap")
    more = {"maxDataPoints": HEATMAP_POINTS}
    return Panel("heatmap", title, description, (query,), options, defaults, width, 8, more=more)


def gauges(
    title: str, description: str, query: Query, unit: str, *, thresholds: Json, most: float = 1.0, width: int = 12
) -> Panel:
    """Show the last value of each series as a bar."""
    defaults = {
        "unit": unit,
        "min": 0,
        "max": most,
        "color": {"mode": "thresholds"},
        "mappings": [],
        "thresholds": thresholds,
    }
    options = {
        "displayMode": "gradient",
        "valueMode": "color",
        "namePlacement": "auto",
        "showUnfilled": True,
        "sizing": "auto",
        "minVizWidth": 8,
        "minVizHeight": 16,
        "maxVizHeight": 40,
        "orientation": "horizontal",
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False, "calcs": []},
        "reduceOptions": {"values": False, "calcs": ["lastNotNull"], "fields": ""},
    }
    return Panel("bargauge", title, description, (query,), options, defaults, width, 8)


def states(title: str, description: str, query: Query, names: Mapping[str, str], *, width: int = 24) -> Panel:
    """Show each series' state over time. Values are positions in `names`, which give each state's colour."""
    mapped = {str(place): {"text": name, "color": names[name], "index": place} for place, name in enumerate(names)}
    defaults = {
        "color": {"mode": "thresholds"},
        "custom": {"fillOpacity": 75, "lineWidth": 0, "spanNulls": False},
        "mappings": [{"type": "value", "options": mapped}],
        "thresholds": steps(),
    }
    options = {
        "mergeValues": True,
        "showValue": "auto",
        "alignValue": "left",
        "rowHeight": 0.85,
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "single", "sort": "none"},
    }
    return Panel("state-timeline", title, description, (query,), options, defaults, width, 8)
