"""Write the documentation's table of metrics."""

from observability.metrics.declarations import METRICS
from observability.metrics.metric import Metric


def metric_table() -> str:
    """Return the table in Markdown, in the order in which metrics are exposed."""
    head = ("| Metric | Kind | Labels | What it is |", "| --- | --- | --- | --- |")
    return "\n".join((*head, *map(_row, METRICS))) + "\n"


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{name}`" for name in metric.labels)
    also = f" Also as `{metric.genai.exposed}`." if metric.genai is not None else ""
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help}{also} |"
