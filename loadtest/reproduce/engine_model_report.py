"""Prints the comparison of the engine model with published figures."""

from collections.abc import Mapping, Sequence

from rich.console import Console

from loadtest.reports.console import new_table
from loadtest.reproduce.engine_model import Comparison


def print_engine_model(comparisons: Mapping[str, Sequence[Comparison]], out: Console) -> None:
    """Print published and predicted throughput side by side."""
    table = new_table(
        "Saturated throughput, output tokens/s",
        *("model", "prompt/answer", "TP", "published", "predicted", "error"),
    )
    for model, rows in comparisons.items():
        for row in rows:
            lengths = f"{row.workload.prompt}/{row.workload.output}"
            figures = (f"{row.published:,.0f}", f"{row.predicted:,.0f}", f"{row.error:+.1%}")
            table.add_row(model, lengths, str(row.tp), *figures)
    out.print(table)
