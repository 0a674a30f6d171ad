"""A study for people: a table, with rich."""

from collections.abc import Sequence

from rich.console import Console

from loadtest.report import new_table
from loadtest.simulation.metrics import Spread
from loadtest.simulation.study import PolicyResult


def print_study(results: Sequence[PolicyResult], out: Console) -> None:
    """Each policy at each rate, and goodputs, the best first."""
    if any(result.summaries for result in results):
        table = new_table(
            "Simulated, by policy and rate",
            *("policy", "req/s", "in time", "TTFT, s", "TPOT, ms", "cache hits", "busy", "balance", "refused"),
        )
        for result in results:
            for found in result.summaries:
                table.add_row(
                    result.policy,
                    f"{found.rate:.3g}",
                    f"{found.attainment:.1%}",
                    _spread(found.ttft, 1.0, 2),
                    _spread(found.tpot, 1e3, 1),
                    f"{found.hit_rate:.1%}",
                    f"{found.busy:.0%}",
                    f"{found.balance:.2f}",
                    f"{found.refused:,}",
                )
        out.print(table)
        out.print(
            "In time: TTFT and mean TPOT within the targets, of all requests. TTFT, TPOT: p50/p90/p95/p99. Busy: time "
            "in which a GPU computed; balance: that of the busiest replica over the mean.\n"
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


def _spread(value: Spread | None, scale: float, digits: int) -> str:
    if value is None:
        return "-"
    return "/".join(f"{scale * each:.{digits}f}" for each in (value.p50, value.p90, value.p95, value.p99))
