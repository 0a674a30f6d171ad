"""The style of plots: colours, and axes without decoration."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes


INK: Final = "#222222"


# Opaque, so that dark text is readable on any background.
PAPER: Final = "#ffffff"


def plain(axes: "Axes") -> None:
    """Style axes as in all plots."""
    axes.set_facecolor(PAPER)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
