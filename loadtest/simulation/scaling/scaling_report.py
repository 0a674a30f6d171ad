"""Prints a comparison of scalers as a table, with rich."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console

from loadtest.reports.console import new_table
from loadtest.simulation.scaling.calibration import REPLICAS, predicted
from loadtest.simulation.scaling.scaling_result import ScalingResult
from loadtest.simulation.scaling.scaling_study import Measured

_WIDE_COLUMNS: Final = 110


def print_scaling(found: Measured, results: Sequence[ScalingResult], out: Console) -> None:
    """Print each contender's figures."""
    load = found.scenario.load
    wide = out.width >= _WIDE_COLUMNS
    further = ("starts", "flaps", "lost", "p99, s") if wide else ()
    columns = ("scaler", "in time", "replicas", "GPU-h", "cost, $", "over", "actions", *further)
    table = new_table(f"{load.name}: {load.curve.end / 3600:.3g} h, {results[0].requests:,.0f} requests", *columns)
    for result in results:
        table.add_row(
            result.scaler,
            f"{result.in_time:.2%}",
            f"{result.mean_replicas:.2f}",
            f"{result.gpu_hours:,.1f}",
            f"{result.cost:,.2f}",
            f"{result.over:+.0%}",
            f"{result.actions:,}",
            *(
                (
                    f"{result.starts:,}",
                    f"{result.flaps:,}",
                    f"{result.lost:,.0f}",
                    "-" if result.p99 is None else f"{result.p99:.1f}",
                )
                if wide
                else ()
            ),
        )
    out.print(table)
    slo = load.slo
    for pool in found.scenario.pools:
        known = found.calibrations[pool.name]
        goodput, said = known.goodput(slo.in_time), predicted(pool, known, load.lengths, slo)
        out.print(
            f"{pool.name}: one replica of {REPLICAS} serves {goodput.rate:.3g} requests/s, {slo.in_time:.0%} of them "
            f"in time, with {goodput.answers:.0f} answers under way; the controller's model says {said:.3g}."
        )
    out.print(
        "Replicas: mean from starts to ends. Over: GPU-hours over those of an oracle that always has just what the "
        f"rate needs. Actions: changes of the wanted count{'; flaps: turns within 10 minutes' * wide}.\n"
    )
