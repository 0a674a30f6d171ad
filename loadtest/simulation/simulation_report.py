"""Prints a study as a table, with rich."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console

from loadtest.reports.console import new_table
from loadtest.simulation.simulation_metrics import Spread
from loadtest.simulation.study import PolicyResult

#: Percentiles of TTFT and TPOT for wide terminals, and those for 80 columns.
_WIDE: Final = ("p50", "p90", "p95", "p99")
_NARROW: Final = ("p50", "p95")
_WIDE_COLUMNS: Final = 110


def print_study(results: Sequence[PolicyResult], out: Console) -> None:
    """Print each policy at each rate, and goodputs, the best first."""
    if any(result.summaries for result in results):
        wide = out.width >= _WIDE_COLUMNS
        shown = _WIDE if wide else _NARROW
        table = new_table(
            "Simulated, by policy and rate",
            *("policy", "req/s", "in time", "TTFT, s", "TPOT, ms", "cached", "busy", "refused", *["balance"] * wide),
        )
        for result in results:
            for found in result.summaries:
                table.add_row(
                    result.policy,
                    f"{found.rate:.3g}",
                    f"{found.attainment:.1%}",
                    _spread(found.ttft, shown, 1.0, 2),
                    _spread(found.tpot, shown, 1e3, 1),
                    f"{found.hit_rate:.1%}",
                    f"{found.busy:.0%}",
                    f"{found.refused:,}",
                    *[f"{found.balance:.2f}"] * wide,
                )
        out.print(table)
        out.print(
            "In time: TTFT and mean TPOT within the targets, of all requests. TTFT, TPOT: "
            f"{'/'.join(shown)}. Cached: of the prompts' tokens. Busy: time in which a GPU computed"
            f"{'; balance: that of the busiest replica over the mean' * wide}.\n"
        )
    ranked = sorted(
        ((result.goodput, result.policy) for result in results if result.goodput),
        key=lambda found: found[0].rate,
        reverse=True,
    )
    if ranked:
        table = new_table("Goodput: the highest rate at which 95 % are in time", "policy", "req/s", "simulations")
        for goodput, policy in ranked:
            rate = f"{goodput.rate:.3g}" if goodput.bounded else f"at least {goodput.rate:.3g}"
            table.add_row(policy, rate, str(len(goodput.tried)))
        out.print(table)


def _spread(value: Spread | None, percentiles: Sequence[str], scale: float, digits: int) -> str:
    if value is None:
        return "-"
    return "/".join(f"{scale * getattr(value, name):.{digits}f}" for name in percentiles)
