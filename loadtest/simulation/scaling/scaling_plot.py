"""Draws a comparison of scalers over time, with matplotlib."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from loadtest.reports.plot_style import INK, PAPER, plain
from loadtest.simulation.scaling.scaling_result import ScalingResult, needed_replicas
from loadtest.simulation.scaling.scaling_study import Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Distinguishable for colour-blind readers (Paul Tol's muted scheme).
_COLOURS: Final = ("#332288", "#cc6677", "#117733", "#999933", "#88ccee", "#882255", "#44aa99", "#ddcc77", "#aa4499")
#: Points of the load's line.
_POINTS: Final = 800
_HOUR: Final = 3600.0


def draw_scaling(results: Sequence[ScalingResult], scenario: Scenario, goodput: float, path: Path) -> None:
    """Draw load, wanted and ready replicas, cost and shares in time, as a PNG. Raises OSError.

    `goodput` is of a replica of the first pool; 0: what is needed is not drawn.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    curve, scaling = scenario.load.curve, scenario.pools[0].scaling
    unit, label = (_HOUR, "hours") if curve.end > 2 * _HOUR else (60.0, "minutes")
    if curve.end > 48 * _HOUR:
        unit, label = 24 * _HOUR, "days"
    figure = Figure(figsize=(10, 11), dpi=130, facecolor=PAPER, layout="constrained")
    load, replicas, cost, share = figure.subplots(4, 1, sharex=True, height_ratios=(2, 4, 2, 2))
    times = [curve.end * at / _POINTS for at in range(_POINTS + 1)]
    load.plot([time / unit for time in times], [curve.at(time) for time in times], color=INK, linewidth=1.2)
    load.set_ylabel("requests/s")
    if goodput:
        needed = [needed_replicas(curve.at(time), goodput, scaling.min, scaling.max) for time in times]
        replicas.step(
            [time / unit for time in times], needed, color="#bbbbbb", linewidth=2.5, where="post", label="needed"
        )
    for number, result in enumerate(results):
        colour = _COLOURS[number % len(_COLOURS)]
        at = [point.at / unit for point in result.points]
        if not at:  # a constant count is never asked
            at = [0.0, curve.end / unit]
            replicas.plot(at, [result.mean_replicas] * 2, color=colour, linewidth=1.4, label=result.scaler)
            cost.plot(at, [result.cost / curve.end * _HOUR] * 2, color=colour, linewidth=1.2)
        else:
            ready = [point.ready for point in result.points]
            replicas.step(at, ready, color=colour, linewidth=1.4, where="post", label=result.scaler)
            wanted = [point.wanted for point in result.points]
            replicas.step(at, wanted, color=colour, linewidth=0.7, where="post", linestyle=":")
            cost.step(at, [point.cost for point in result.points], color=colour, linewidth=1.2, where="post")
        _draw_shares(share, result, colour, unit)
    replicas.set_ylabel("replicas: ready, wanted (dotted)")
    replicas.set_ylim(bottom=0)
    replicas.legend(loc="upper left", frameon=False, fontsize=8, ncols=4)
    # Room for the legend above the lines.
    replicas.set_ylim(0, replicas.get_ylim()[1] * 1.2)
    cost.set_ylabel("$ an hour")
    cost.set_ylim(bottom=0)
    share.set_ylabel("in time, %")
    share.axhline(100 * scenario.load.slo.in_time, color=INK, linewidth=0.8, linestyle=":")
    share.set_ylim(0, 104)
    share.set_xlabel(label, color=INK)
    load.set_ylim(bottom=0)
    load.set_title(scenario.load.name, color=INK, loc="left")
    for axes in (load, replicas, cost, share):
        plain(axes)
        axes.set_xlim(0, curve.end / unit)
    figure.savefig(path, format="png", facecolor=PAPER)


def _draw_shares(axes: "Axes", result: ScalingResult, colour: str, unit: float) -> None:
    points = [
        ((number + 0.5) * result.bin_seconds / unit, 100 * share)
        for number, share in enumerate(result.shares)
        if share is not None
    ]
    axes.plot([at for at, _ in points], [share for _, share in points], color=colour, linewidth=1.0)
