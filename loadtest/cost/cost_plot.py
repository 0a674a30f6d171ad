"""Draws price lists, with matplotlib."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from loadtest.cost.bytecodes import LIBRARIES, PACKAGES
from loadtest.cost.price import TOKEN, Bytecodes, Prices
from loadtest.reports.plot_style import INK, PAPER, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Distinguishable for colour-blind readers and in grey (Paul Tol's bright scheme).
_COLOURS: Final = dict(
    zip((*PACKAGES, LIBRARIES), ("#4477aa", "#228833", "#ccbb44", "#66ccee", "#ee6677", "#bbbbbb"), strict=True)
)
#: Inches of a bar, and of a picture's other parts.
_BAR: Final = 0.34
_REST: Final = 1.1


def draw_cost(found: Prices, path: Path) -> None:
    """Draw bytecodes by package, of requests above and of tokens below, as a PNG. Raises OSError."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    counted = {name: price.bytecodes for name, price in found.items() if price.bytecodes is not None}
    parts = {
        "bytecodes a request (of a stream: without its tokens)": {
            name: bytecodes for name, bytecodes in counted.items() if not name.endswith(TOKEN)
        },
        "bytecodes a token, with 8 streams at a time": {
            name.removesuffix(TOKEN): bytecodes for name, bytecodes in counted.items() if name.endswith(TOKEN)
        },
    }
    drawn = {title: part for title, part in parts.items() if part}
    heights = [_BAR * len(part) + _REST for part in drawn.values()]
    figure = Figure(figsize=(10, sum(heights) + 0.4), dpi=150, facecolor=PAPER, layout="constrained")
    rows = figure.subplots(len(drawn), 1, height_ratios=heights, squeeze=False)
    for axes, (title, part) in zip(rows[:, 0], drawn.items(), strict=True):
        _draw(axes, part)
        axes.set_xlabel(title, color=INK)
    rows[0, 0].legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(_COLOURS), frameon=False, fontsize=9)
    figure.savefig(path, format="png", facecolor=PAPER)


def _draw(axes: "Axes", part: dict[str, Bytecodes]) -> None:
    names = list(part)[::-1]  # the first one on top
    lefts = [0.0] * len(names)
    for package, colour in _COLOURS.items():
        # What is less than nothing comes of a difference of two counts.
        widths = [max(0.0, part[name].packages[package]) for name in names]
        axes.barh(names, widths, left=lefts, color=colour, label=package, height=0.7)
        lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
    for place, (name, right) in enumerate(zip(names, lefts, strict=True)):
        axes.annotate(
            f"{part[name].total:,.0f}", (right, place), (4, 0), textcoords="offset points", va="center", fontsize=8
        )
    axes.set_xlim(0, 1.1 * max(lefts))
    plain(axes)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
