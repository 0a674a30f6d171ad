"""ScaleLLM's Figure 9: one mixture-of-experts replica on eight GPUs with three ways to split its experts."""

from collections.abc import Iterator
from typing import Final

from loadtest.reproduce import concurrency_sweep
from loadtest.reproduce.concurrency_sweep import Sweep, Throughputs, lead, leads, passes_at, wins
from loadtest.reproduce.engine_model import FIGURE_9
from loadtest.reproduce.reproduction import Claim, Reproduction, Show

TP8, EP2, EP4 = (fleet.name for fleet in FIGURE_9)
#: "Particularly significant" is taken to be more than a tenth.
CLEAR: Final = 0.10
#: Section 4.1: speed-up of hybrid parallelism over tensor parallelism alone.
FASTER: Final = 1.5

_TITLE: Final = "ScaleLLM, Figure 9: tensor and expert parallelism on eight GPUs"
_CALIBRATED: Final = (
    " **The orders below are no evidence:** three coefficients of the engine model (`split_seconds`, `group_seconds`, "
    "`expert_skew`) were chosen so that the orders of this very figure come out, since no published number determines "
    "them. Only the distances are the model's own."
)


def reproduce(sweep: Sweep | None = None, show: Show = None) -> Reproduction:
    """Run the three shapes at all concurrencies."""
    sweep = sweep or Sweep()
    table = sweep.run(FIGURE_9, show)
    return Reproduction(
        _TITLE,
        sweep.setting + _CALIBRATED,
        ["concurrent", *(f"{fleet.name}, tokens/s" for fleet in FIGURE_9)],
        concurrency_sweep.rows(table),
        list(claims(table, sweep)),
        table,
        concurrency_sweep.draw(table, sweep, _TITLE),
    )


def claims(table: Throughputs, sweep: Sweep) -> Iterator[Claim]:
    """Yield the paper's claims about Figure 9 (sections 4.1 and 5.2)."""
    everywhere = (*sweep.low, *sweep.high)
    past = [c for c in everywhere if c > 128]
    before = [c for c in everywhere if c <= 128]
    yield Claim(
        "EP2-TP4 consistently outperforms both others across the entire spectrum.",
        wins(table, EP2, TP8, everywhere) and wins(table, EP2, EP4, everywhere),
        f"over TP8 at least {min(lead(table, EP2, TP8, c) for c in everywhere):+.1%}, "
        f"over EP4-TP2 at least {min(lead(table, EP2, EP4, c) for c in everywhere):+.1%}.",
    )
    yield Claim(
        "Its advantage is larger beyond 128 concurrent requests than anywhere below.",
        min(lead(table, EP2, TP8, c) for c in past) > max(lead(table, EP2, TP8, c) for c in before),
        f"over TP8 {leads(table, EP2, TP8, everywhere)}.",
    )
    yield Claim(
        f"There it is particularly significant (more than {CLEAR:.0%}).",
        all(lead(table, EP2, TP8, c) > CLEAR for c in past),
        f"over TP8 {leads(table, EP2, TP8, past)}.",
    )
    yield Claim(
        f"Section 4.1: the hybrid can be {FASTER:g} times faster than tensor parallelism alone.",
        max(lead(table, EP2, TP8, c) for c in everywhere) >= FASTER - 1,
        f"at most {1 + max(lead(table, EP2, TP8, c) for c in everywhere):.2f} times.",
    )
    few = [c for c in everywhere if c <= 8]
    yield Claim(
        "TP8 beats EP4-TP2 at lower concurrency (here to 8).",
        wins(table, TP8, EP4, few),
        f"{leads(table, TP8, EP4, few)}.",
    )
    many = [c for c in everywhere if c > 16]
    ahead = passes_at(table, EP4, TP8)
    yield Claim(
        "EP4-TP2 passes TP8 as concurrency increases beyond 16.",
        wins(table, EP4, TP8, many),
        f"over TP8 {leads(table, EP4, TP8, many)}; " + (f"ahead from {ahead} on." if ahead else "it stays behind."),
    )
