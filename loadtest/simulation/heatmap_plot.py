"""Plots a heatmap file, with matplotlib."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from protos.types import Shape
from routing.contracts.heatmap import Comparison, HeatmapFile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK: Final = "#222222"
_PAPER: Final = "#ffffff"
#: Diverging and distinguishable for colour-blind readers: red where the pair is better, as in DeepFlow's figure.
_COLOURS: Final = "RdBu_r"
#: Share of the scale from which on a cell is so dark that its number must be light.
_DARK: Final = 0.6


def draw_heatmap(file: HeatmapFile, path: Path) -> None:
    """Draw all comparisons side by side on one scale, as a PNG. Raises OSError."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.colors import CenteredNorm
    from matplotlib.figure import Figure

    count = len(file.comparisons)
    width = 1.6 + count * (0.75 * len(file.ratios) + 1.0)
    height = 2.2 + 0.5 * len(file.prefill_tokens)
    figure = Figure(figsize=(max(width, 8.0), height), dpi=150, facecolor=_PAPER, layout="constrained")
    known = [abs(cell) for c in file.comparisons for row in c.cells for cell in row if cell is not None]
    scale = CenteredNorm(halfrange=max(known, default=0.0) or 1.0)
    panels = figure.subplots(1, count, squeeze=False, sharey=True)[0]
    for axes, comparison in zip(panels, file.comparisons, strict=True):
        image = axes.imshow(
            [[float("nan") if cell is None else cell for cell in row] for row in comparison.cells],
            cmap=_COLOURS,
            norm=scale,
            origin="lower",
            aspect="auto",
        )
        _label(axes, file, comparison, scale.halfrange)
    panels[0].set_ylabel("prefill length, tokens", color=_INK)
    bar = figure.colorbar(image, ax=list(panels), pad=0.02)
    bar.set_label("colocated better        pair better", color=_INK)
    rates = ", ".join(f"{rate:g}" for rate in file.rates)
    figure.suptitle(
        f"{file.model}: JCT colocated / JCT pair - 1, summed over {rates} requests/s", color=_INK, x=0.01, ha="left"
    )
    figure.savefig(path, format="png", facecolor=_PAPER)


def _label(axes: "Axes", file: HeatmapFile, comparison: Comparison, most: float) -> None:
    axes.set_xticks(range(len(file.ratios)), [f"{ratio:g}" for ratio in file.ratios])
    axes.set_yticks(range(len(file.prefill_tokens)), [f"{tokens:,}" for tokens in file.prefill_tokens])
    axes.set_xlabel("decode length / prefill length", color=_INK)
    axes.set_title(
        f"{shape_name(comparison.colocated)} colocated or "
        f"{shape_name(comparison.prefill)} prefill + {shape_name(comparison.decode)} decode",
        fontsize=10,
        loc="left",
        color=_INK,
    )
    axes.set_facecolor("#e6e6e6")
    axes.tick_params(colors=_INK, length=0)
    axes.spines[:].set_visible(False)
    for y, row in enumerate(comparison.cells):
        for x, cell in enumerate(row):
            if cell is None:
                axes.text(x, y, "too long", ha="center", va="center", fontsize=6, color="#777777")
            else:
                colour = _PAPER if abs(cell) > _DARK * most else _INK
                axes.text(x, y, f"{cell:+.2f}", ha="center", va="center", fontsize=8, color=colour)


def shape_name(shape: Shape) -> str:
    """Format a shape as people write it, such as TP8-EP2."""
    degrees = (("TP", shape.tp), ("EP", shape.ep), ("PP", shape.pp))
    return "-".join(f"{name}{degree}" for name, degree in degrees if degree > 1 or name == "TP")
