"""The plot of start times: steps stacked by case, seconds to load by source, and to fork many replicas at once."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from loadtest.reports.plot_style import INK, PAPER, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Distinguishable for colour-blind readers (Paul Tol's muted scheme).
_COLOURS: Final = ("#332288", "#cc6677", "#117733", "#88ccee", "#aa4499", "#ddcc77")
_DPI: Final = 80

#: Seconds by name.
Seconds = Mapping[str, float]


def draw_starts(
    steps: Mapping[str, Mapping[str, Seconds]],
    loads: Mapping[str, Seconds],
    together: Mapping[str, Mapping[int, float]],
    title: str,
    path: Path,
) -> None:
    """Draw a PNG: `steps` by model and case, `loads` by model and source, `together` by model and number of replicas.

    Raises:
        OSError: It cannot be written.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.3 * max(2, len(steps)), 7.6), dpi=_DPI, facecolor=PAPER, layout="constrained")
    above, below = figure.subfigures(2, 1, squeeze=False).flat
    for axes, (model, cases) in zip(above.subplots(1, len(steps), squeeze=False).flat, steps.items(), strict=True):
        _stack(axes, cases)
        axes.set_title(model, fontsize=10, loc="left", color=INK)
    handles, names = axes.get_legend_handles_labels()
    above.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    left, right = below.subplots(1, 2)
    _group(left, loads)
    left.set_title("Figure 9: loading", fontsize=10, loc="left", color=INK)
    for number, (model, seconds) in enumerate(together.items()):
        right.plot(list(seconds), list(seconds.values()), color=_COLOURS[number], marker="o", markersize=5, label=model)
    right.set_xscale("log", base=2)
    counts = sorted({count for seconds in together.values() for count in seconds})
    right.set_xticks(counts, [str(count) for count in counts])
    right.set_ylim(bottom=0)
    right.set_xlabel("replicas at once", color=INK)
    right.set_ylabel("seconds to fork", color=INK)
    right.set_title("Figure 10: forks from one replica", fontsize=10, loc="left", color=INK)
    right.legend(frameon=False, fontsize=8)
    plain(right)
    figure.suptitle(title, color=INK, x=0.01, ha="left")
    figure.savefig(path, format="png", facecolor=PAPER, pil_kwargs={"optimize": True})


def _stack(axes: "Axes", cases: Mapping[str, Seconds]) -> None:
    at = range(len(cases))
    base = [0.0] * len(cases)
    for number, step in enumerate(next(iter(cases.values()))):
        seconds = [case[step] for case in cases.values()]
        axes.barh(at, seconds, left=base, color=_COLOURS[number], label=step, height=0.6)
        base = [before + more for before, more in zip(base, seconds, strict=True)]
    for y, total in zip(at, base, strict=True):
        axes.text(total, y, f" {total:.1f}", va="center", fontsize=8, color=INK)
    axes.set_yticks(at, list(cases), fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(right=1.12 * max(base))
    axes.set_xlabel("seconds", color=INK)
    plain(axes)


def _group(axes: "Axes", loads: Mapping[str, Seconds]) -> None:
    sources = list(next(iter(loads.values())))
    width = 0.8 / len(sources)
    for number, source in enumerate(sources):
        at = [model + (number - (len(sources) - 1) / 2) * width for model in range(len(loads))]
        axes.bar(at, [seconds[source] for seconds in loads.values()], width, color=_COLOURS[number], label=source)
    axes.set_yscale("log")
    ticks = (0.1, 0.2, 0.5, 1, 2, 5, 10)
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xticks(range(len(loads)), list(loads))
    axes.set_ylabel("seconds to load", color=INK)
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    plain(axes)
