"""Plots a study, with matplotlib: each policy's metrics over the rate."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from loadtest.reports.plot_style import INK, PAPER, plain
from loadtest.simulation.goodput import REQUIRED
from loadtest.simulation.simulation_metrics import Summary
from loadtest.simulation.study import PolicyResult

# Distinguishable for colour-blind readers (Paul Tol's muted scheme), and in grey by their markers.
_COLOURS: Final = ("#332288", "#cc6677", "#117733", "#ddcc77", "#88ccee", "#882255", "#44aa99", "#999933", "#aa4499")
_MARKS: Final = "os^Dv<>pXh*P"


def draw_study(results: Sequence[PolicyResult], path: Path, title: str, tpot_target: float) -> None:
    """Draw TTFT and TPOT (p95) and the share served in time over the rate, as a PNG. Raises OSError."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 10), dpi=150, facecolor=PAPER, layout="constrained")
    panels = figure.subplots(3, 1, sharex=True)
    figures: tuple[tuple[str, Callable[[Summary], float | None]], ...] = (
        ("in time, % of all requests", lambda found: 100 * found.attainment),
        ("p95 of TTFT, s", lambda found: found.ttft.p95 if found.ttft else None),
        ("p95 of mean TPOT, ms", lambda found: 1e3 * found.tpot.p95 if found.tpot else None),
    )
    for axes, (label, of) in zip(panels, figures, strict=True):
        for number, result in enumerate(results):
            points = [(found.rate, value) for found in result.summaries if (value := of(found)) is not None]
            axes.plot(
                [rate for rate, _ in points],
                [value for _, value in points],
                color=_COLOURS[number % len(_COLOURS)],
                marker=_MARKS[number % len(_MARKS)],
                markersize=5,
                linewidth=1.5,
                label=result.policy,
            )
        axes.set_ylabel(label)
        plain(axes)
    share, ttft, tpot = panels
    share.axhline(100 * REQUIRED, color=INK, linewidth=0.8, linestyle=":")
    share.set_ylim(0, 104)
    tpot.axhline(1e3 * tpot_target, color=INK, linewidth=0.8, linestyle=":")
    tpot.set_ylim(bottom=0)
    # On a linear axis an overloaded policy would hide all others.
    ttft.set_yscale("log")
    ttft.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ttft.yaxis.set_minor_formatter(
        lambda value, _: f"{value:g}" if ttft.get_ylim()[1] < 10 * ttft.get_ylim()[0] else ""
    )
    share.set_title(title, color=INK, loc="left")
    share.legend(loc="lower left", frameon=False, fontsize=9, ncols=2)
    tpot.set_xlabel("requests/s", color=INK)
    figure.savefig(path, format="png", facecolor=PAPER)
