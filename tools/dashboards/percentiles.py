"""Show histograms of times in two ways that are alike on every dashboard."""

from typing import Final

from observability.metrics.metric import Metric
from tools.dashboards.panels import BLUE, ORANGE, RED, Json, Panel, Query, heatmap, lines
from tools.dashboards.promql import Scope

#: Shown quantiles: their names and colours.
_SHOWN: Final = ((0.5, "p50", BLUE), (0.95, "p95", ORANGE), (0.99, "p99", RED))


def percentiles(
    title: str, description: str, scope: Scope, metric: Metric, *, thresholds: Json | None = None, width: int = 8
) -> Panel:
    """Plot percentiles 50, 95 and 99."""
    return lines(
        title,
        description + " Half, 95 % and 99 % are below p50, p95 and p99.",
        [Query(scope.quantile(quantile, metric), name) for quantile, name, _ in _SHOWN],
        "s",
        colors={name: color for _, name, color in _SHOWN},
        thresholds=thresholds,
        width=width,
    )


def spread(title: str, description: str, scope: Scope, metric: Metric, *, width: int = 12) -> Panel:
    """Show all observations as a heatmap."""
    return heatmap(title, description + " The redder, the more.", scope.heat(metric), width=width)
