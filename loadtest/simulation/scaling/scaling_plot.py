"""Draws a comparison of scalers over time, with matplotlib."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from loadtest.reports.plot_style import INK, PAPER, plain
from loadtest.simulation.scaling.scaling_result import ScalingResult, needed_replicas
from loadtest.simulation.scaling.scaling_study import Scenario

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
        # The first one, ours, is drawn over the others.
        style: dict[str, Any] = {
            "color": _COLOURS[number % len(_COLOURS)],
            "linewidth": 0.8 if number else 1.6,
            "zorder": 3.0 - number / 100,
        }
        at = [point.at / unit for point in result.points]
        if not at:  # a constant count is never asked
            at = [0.0, curve.end / unit]
            replicas.plot(at, [result.mean_replicas] * 2, label=result.scaler, **style)
            cost.plot(at, [result.cost / curve.end * _HOUR] * 2, **style)
        else:
            ready = [point.ready for point in result.points]
            replicas.step(at, ready, where="post", label=result.scaler, **style)
            cost.step(at, [point.cost for point in result.points], where="post", **style)
            if not number:
                wanted = [point.wanted for point in result.points]
                replicas.step(at, wanted, where="post", linestyle=":", color=INK, linewidth=0.8, label="wanted by it")
        shares = [
            ((place + 0.5) * result.bin_seconds / unit, 100 * met)
            for place, met in enumerate(result.shares)
            if met is not None
        ]
        share.plot([place for place, _ in shares], [met for _, met in shares], **style)
    replicas.set_ylabel("replicas that are ready")
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
