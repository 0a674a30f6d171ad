"""ScaleLLM's Figure 8: one wide replica compared with several narrower ones on eight GPUs."""

from collections.abc import Iterator
from typing import Final

from loadtest.reproduce import concurrency_sweep
from loadtest.reproduce.concurrency_sweep import Sweep, Throughputs, lead, leads, passes_at, wins
from loadtest.reproduce.engine_model import FIGURE_8, SCALELLM_BATCH
from loadtest.reproduce.reproduction import Claim, Reproduction, Show

TP8, TP4, TP2 = (fleet.name for fleet in FIGURE_8)
#: "A modest improvement" is taken to be less than a quarter, "significantly" better to be more than a tenth.
MODEST: Final = 0.25
CLEAR: Final = 0.10
#: Section 6: the concurrency from which on many narrow replicas are used.
THRESHOLD: Final = 64

_TITLE: Final = "ScaleLLM, Figure 8: replicas of one shape on eight GPUs"
_ROUTER: Final = (
    " It does not name its router either; here `least_load` places each request. With random placing, as in "
    "[engine-model.md](engine-model.md), fewer narrow replicas are busy at low concurrency, and 1x TP8 is ahead there."
)


def reproduce(sweep: Sweep | None = None, show: Show = None) -> Reproduction:
    """Run the three fleets at all concurrencies."""
    sweep = sweep or Sweep()
    table = sweep.run(FIGURE_8, show)
    return Reproduction(
        _TITLE,
        sweep.setting + _ROUTER,
        ["concurrent", *(f"{fleet.name}, tokens/s" for fleet in FIGURE_8)],
        concurrency_sweep.rows(table),
        list(claims(table, sweep)),
        table,
        concurrency_sweep.draw(table, sweep, _TITLE),
    )


def claims(table: Throughputs, sweep: Sweep) -> Iterator[Claim]:
    """Yield the paper's claims about Figure 8 and its conclusions (sections 5.2 and 6)."""
    low = sweep.low
    at, past = ([c for c in sweep.high if c >= 128], [c for c in sweep.high if c > 128])
    yield Claim(
        f"At low concurrency (here {low[0]} to {low[-1]}) 1x TP8 beats 4x TP2.",
        wins(table, TP8, TP2, low),
        f"{leads(table, TP8, TP2, low)}.",
    )
    yield Claim(
        f"At low concurrency (here {low[0]} to {low[-1]}) 1x TP8 beats 2x TP4.",
        wins(table, TP8, TP4, low),
        f"{leads(table, TP8, TP4, low)}.",
    )
    found = f"over 2x TP4 {leads(table, TP2, TP4, past)}; over 1x TP8 {leads(table, TP2, TP8, past)}."
    yield Claim(
        "4x TP2 is the best as concurrency exceeds 128.",
        wins(table, TP2, TP4, past) and wins(table, TP2, TP8, past),
        found,
    )
    yield Claim(
        f"It is significantly better there (by more than {CLEAR:.0%}).",
        all(min(lead(table, TP2, TP8, c), lead(table, TP2, TP4, c)) > CLEAR for c in past),
        found,
    )
    ahead = passes_at(table, TP2, TP4)
    yield Claim(
        "If 128 itself is meant, too: 4x TP2 is the best there.",
        wins(table, TP2, TP4, at) and wins(table, TP2, TP8, at),
        f"over 2x TP4 {leads(table, TP2, TP4, at)}; "
        + (f"ahead from {ahead} on." if ahead else "it stays behind throughout."),
    )
    yield Claim(
        "At high concurrency (from 128 on) 1x TP8 is the poorest.",
        wins(table, TP4, TP8, at) and wins(table, TP2, TP8, at),
        f"against 2x TP4 {leads(table, TP8, TP4, at)}; against 4x TP2 {leads(table, TP8, TP2, at)}.",
    )
    yield Claim(
        f"There 2x TP4 is a modest improvement over 1x TP8 (by less than {MODEST:.0%}).",
        all(0 < lead(table, TP4, TP8, c) < MODEST for c in at),
        f"{leads(table, TP4, TP8, at)}. With {SCALELLM_BATCH} sequences a batch, two replicas run "
        "twice as many; what made the paper's second replica worth so little is not known.",
    )
    here = [c for c in sweep.high if c >= THRESHOLD]
    behind = [c for c in here if lead(table, TP2, TP8, c) < 0]
    yield Claim(
        f"Section 6 concludes: from {THRESHOLD} concurrent requests on, many narrow replicas are better than few wide.",
        not behind,
        f"4x TP2 over 1x TP8 {leads(table, TP2, TP8, here)}.",
    )
