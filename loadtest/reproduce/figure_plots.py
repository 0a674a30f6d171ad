"""Plots of reproductions, with matplotlib: panels of lines, and heatmaps side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from loadtest.reports.plot_style import INK, PAPER, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Distinguishable for colour-blind readers (Paul Tol's muted scheme), and in grey by their markers.
_COLOURS: Final = ("#332288", "#cc6677", "#117733", "#88ccee", "#aa4499", "#999933")
_MARKS: Final = "os^DvP"
#: Diverging and distinguishable for colour-blind readers: red where the pair is better, as in DeepFlow's figure.
_DIVERGING: Final = "RdBu_r"
#: Share of the scale from which on a cell is so dark that its number must be light.
_DARK: Final = 0.6
#: Where lines overlap, the dashes of the upper one show the lower one.
_DASHES: Final = ("-", "-", "-", (0, (4, 3)), "-", (0, (1, 1)))
#: Small enough for a page with all plots.
_DPI: Final = 80


class Line(msgspec.Struct, frozen=True):
    """One named series."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


class Panel(msgspec.Struct, frozen=True):
    """Lines over one axis. `doubling`: each tick is twice the one before. On a `log_y` axis no value is 0; on a
    `signed` one values may be negative; any other includes 0.
    """

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    doubling: bool = False
    log_y: bool = False
    signed: bool = False


class Map(msgspec.Struct, frozen=True):
    """A titled grid of cells, the first row at the bottom; None is an empty cell."""

    title: str
    cells: Sequence[Sequence[float | None]]


def draw_panels(grid: Sequence[Sequence[Panel]], title: str, path: Path) -> None:
    """Draw rows of panels, all of the same lines, with one legend, as a PNG. Raises OSError."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    size = (4.3 * len(grid[0]), 0.8 + 3.3 * len(grid))
    figure = Figure(figsize=size, dpi=_DPI, facecolor=PAPER, layout="constrained")
    all_axes = figure.subplots(len(grid), len(grid[0]), squeeze=False)
    panels = [panel for row in grid for panel in row]
    for axes, panel in zip(all_axes.flat, panels, strict=True):
        for number, line in enumerate(panel.lines):
            axes.plot(
                list(line.x),
                list(line.y),
                color=_COLOURS[number % len(_COLOURS)],
                marker=_MARKS[number % len(_MARKS)],
                linestyle=_DASHES[number % len(_DASHES)],
                markersize=5,
                linewidth=1.5,
                label=line.name,
            )
        if panel.doubling:
            axes.set_xscale("log", base=2)
        if panel.log_y:
            axes.set_yscale("log")
            _label_decades(axes, [y for line in panel.lines for y in line.y])
        elif panel.signed:
            axes.axhline(0, color=INK, linewidth=0.8)
        else:
            axes.set_ylim(bottom=0)
        ticks = _apart(sorted({x for line in panel.lines for x in line.x}), doubling=panel.doubling)
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel(panel.x_label, color=INK)
        axes.set_ylabel(panel.y_label, color=INK)
        axes.set_title(panel.title, fontsize=10, loc="left", color=INK)
        plain(axes)
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    figure.suptitle(title, color=INK, x=0.01, ha="left")
    _save(figure, path)


def draw_maps(
    grid: Sequence[Sequence[Map]], rows: Sequence[str], columns: Sequence[str], labels: tuple[str, str], title: str,
    path: Path,
) -> None:  # fmt: skip
    """Draw a grid of maps on one scale as a PNG, cells in percent. `labels` are of x and y. Raises OSError."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.colors import CenteredNorm
    from matplotlib.figure import Figure

    size = (1.2 + len(grid[0]) * (0.46 * len(columns) + 0.5), 1.0 + len(grid) * (0.36 * len(rows) + 0.9))
    figure = Figure(figsize=size, dpi=_DPI, facecolor=PAPER, layout="constrained")
    known = [abs(cell) for line in grid for one in line for row in one.cells for cell in row if cell is not None]
    # A scale up to the few highest cells would leave all others pale.
    scale = CenteredNorm(halfrange=min(max(known, default=0.0) or 1.0, 0.5))
    panels = figure.subplots(len(grid), len(grid[0]), squeeze=False, sharex=True, sharey=True)
    for line, maps in zip(panels, grid, strict=True):
        for axes, one in zip(line, maps, strict=True):
            cells = [[float("nan") if cell is None else cell for cell in row] for row in one.cells]
            image = axes.imshow(cells, cmap=_DIVERGING, norm=scale, origin="lower", aspect="auto")
            _fill(axes, one, scale.halfrange)
            axes.set_xticks(range(len(columns)), columns, rotation=45, fontsize=8)
            axes.set_yticks(range(len(rows)), rows, fontsize=8)
        line[0].set_ylabel(labels[1], color=INK)
    for axes in panels[-1]:
        axes.set_xlabel(labels[0], color=INK)
    percent = round(100 * scale.halfrange)
    bar = figure.colorbar(image, ax=list(panels.flat), pad=0.01, extend="both", aspect=40)
    bar.set_ticks([-scale.halfrange, 0, scale.halfrange], labels=[f"-{percent} %", "0", f"+{percent} %"])
    bar.set_label("colocated better          pair better", color=INK)
    figure.suptitle(title, color=INK, x=0.01, ha="left")
    _save(figure, path)


def _save(figure: "Figure", path: Path) -> None:
    figure.savefig(path, format="png", facecolor=PAPER, pil_kwargs={"optimize": True})


def _apart(ticks: Sequence[float], *, doubling: bool) -> list[float]:
    """Return the ticks without those whose labels would touch the one before."""
    if doubling:
        kept = list(ticks[:1])
        for tick in ticks[1:]:
            if tick >= 2 * kept[-1]:
                kept.append(tick)
        return kept
    gap = (ticks[-1] - ticks[0]) / 12
    kept = list(ticks[:1])
    for tick in ticks[1:]:
        if tick - kept[-1] >= gap:
            kept.append(tick)
    return kept


def _label_decades(axes: "Axes", values: Sequence[float]) -> None:
    """Label a logarithmic axis with plain numbers, several per decade."""
    steps = [digit * 10.0**power for power in range(-3, 5) for digit in (1, 2, 5)]
    shown = [step for step in steps if 0.8 * min(values) <= step <= 1.25 * max(values)]
    axes.set_yticks(shown, [f"{step:g}" for step in shown])


def _fill(axes: "Axes", one: Map, most: float) -> None:
    axes.set_title(one.title, fontsize=10, loc="left", color=INK)
    axes.set_facecolor("#e6e6e6")
    axes.tick_params(colors=INK, length=0)
    axes.spines[:].set_visible(False)
    for y, row in enumerate(one.cells):
        for x, cell in enumerate(row):
            if cell is not None:
                colour = PAPER if abs(cell) > _DARK * most else INK
                text = f"{round(100 * cell):+}" if round(100 * cell) else "0"
                axes.text(x, y, text, ha="center", va="center", fontsize=7, color=colour)
