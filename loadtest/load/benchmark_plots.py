"""Plots of benchmarks, with matplotlib."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from loadtest.load.breakdown import Bar

if TYPE_CHECKING:
    pass
from loadtest.reports.plot_style import INK, PAPER, plain

# Distinguishable for colour-blind readers and in grey (Paul Tol's bright scheme).
_ENGINE: Final = "#4477aa"
_QUEUE: Final = "#bbbbbb"
_GATEWAY: Final = "#ee6677"


def draw_breakdown(bars: Sequence[Bar], path: Path, engine: str) -> None:
    """Draw the stacked latencies, and the gateway's part alone below, as a PNG. Raises OSError."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 7), dpi=150, facecolor=PAPER, layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1.4])
    names = [str(bar.concurrency) for bar in bars]
    engines = [bar.engine_ms / 1e3 for bar in bars]
    queues = [bar.queue_ms / 1e3 for bar in bars]
    gateways = [bar.gateway_ms / 1e3 for bar in bars]
    upper.bar(names, engines, color=_ENGINE, label="engine: prefill and decode, by its own clock")
    upper.bar(names, queues, bottom=engines, color=_QUEUE, label="engine's queue (the paper does not show it apart)")
    bottom = [engine + queue for engine, queue in zip(engines, queues, strict=True)]
    upper.bar(
        names, gateways, bottom=bottom, color=_GATEWAY, label="gateway: everything else, client's network included"
    )
    upper.set_ylabel("mean latency, s")
    upper.set_ylim(0, 1.35 * max(bar.total_ms for bar in bars) / 1e3)
    upper.legend(loc="upper left", frameon=False, fontsize=9, reverse=True)
    upper.set_title("Average latency of a request, not streamed, by concurrent requests", color=INK, loc="left")
    for x, bar in enumerate(bars):
        text = f"{bar.total_ms / 1e3:.2f} s"
        upper.annotate(text, (x, bar.total_ms / 1e3), (0, 3), textcoords="offset points", ha="center", fontsize=8)
    lower.bar(names, [bar.gateway_ms for bar in bars], color=_GATEWAY)
    lower.set_ylabel("gateway alone, ms")
    lower.set_ylim(min(0.0, *(bar.gateway_ms for bar in bars)), 1.3 * max(0.1, *(bar.gateway_ms for bar in bars)))
    for x, bar in enumerate(bars):
        text = f"{bar.gateway_ms:.1f} ms\n{bar.gateway_share:.1%}"
        lower.annotate(text, (x, max(0.0, bar.gateway_ms)), (0, 3), textcoords="offset points", ha="center", fontsize=8)
    lower.set_xlabel(f"concurrent requests\n{engine}", color=INK)
    for axes in (upper, lower):
        plain(axes)
    figure.savefig(path, format="png", facecolor=PAPER)
