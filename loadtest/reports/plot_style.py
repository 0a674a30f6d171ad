"""How plots look: colours, and axes without decoration."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes


INK: Final = "#222222"


# Opaque, so that the dark ink is readable wherever the picture is shown.
PAPER: Final = "#ffffff"


def plain(axes: "Axes") -> None:
    """Give axes the looks that all pictures share."""
    axes.set_facecolor(PAPER)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
