"""Amoeba's Figure 14: throughput, TTFT and TPOT of shapes that change, beside shapes for good and dear changes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Final

import msgspec

from loadtest.reproduce.amoeba_loads import FLEET, LOADS, SEED, SETTING
from loadtest.reproduce.figure_plots import Line, Panel, draw_panels
from loadtest.reproduce.reproduction import Claim, Reproduction, Show
from loadtest.simulation.reshape.reshape_run import ReshapeResult, Shapes, arrangements, run

OURS, SEESAW, TP1, TP4, RESERVED, BEST = "ours", "migration", "TP1", "TP4", "reserved TP4", "best for good"
NAMES: Final = (OURS, SEESAW, TP1, TP4, RESERVED, BEST)
#: What a migration through the host costs beside a change in place: the paper's figure for Seesaw.
DEARER: Final = 41.0
#: The paper's least gain over what is there, and the least share of the best static throughput that ours may have.
GAIN, FLOOR = 1.75, 0.98
#: The load that is made to let groups oscillate: elsewhere each change there and back pays, however many there are.
OSCILLATING: Final = "alternation"
#: Changes an hour and group from which on groups oscillate: one for each minute.
MOST_CHANGES: Final = 60.0
_STATIC: Final[Mapping[str, Shapes]] = {TP1: [[1] * 4] * 2, TP4: [[4]] * 2, RESERVED: [[4], [1] * 4]}
_SETTING: Final = (
    f"{SETTING} *Ours* begins with TP1 and changes; *migration* does the same at {DEARER:.0f} times the cost (Seesaw, "
    "by the paper); *reserved TP4* keeps one group wide for long requests, the paper's own practice in production; "
    "*best for good* is, at each rate, the one of all ten arrangements of the eight GPUs whose worse kind of requests, "
    "short or long, was in time most often, and of equals the one with the highest throughput: nobody knows it "
    "beforehand. {requests:,} requests at each rate."
)


class Sizes(msgspec.Struct, frozen=True):
    """Sizes of a run: `requests` at each rate."""

    requests: int = 900
    loads: Sequence[str] = tuple(LOADS)


#: Results by load and system, in the order of the load's rates.
Found = Mapping[str, Mapping[str, Sequence[ReshapeResult]]]


def reproduce(sizes: Sizes | None = None, show: Show = None) -> Reproduction:
    """Run all systems with all loads at all rates."""
    sizes = sizes or Sizes()
    found = {load: _found(load, sizes.requests, show) for load in sizes.loads}
    return Reproduction(
        "Amoeba, Figure 14: shapes that change against shapes for good",
        _SETTING.format(requests=sizes.requests),
        ["tokens/s / TTFT p50 short, s / long, s / TPOT, ms / in time short, long", *NAMES],
        [
            [f"{load}, {rate:g}/s", *(_shown(found[load][name][at]) for name in NAMES)]
            for load in sizes.loads
            for at, rate in enumerate(LOADS[load][1])
        ],
        [claim for load in sizes.loads for claim in claims(load, found[load])],
        {"loads": {load: LOADS[load][1] for load in sizes.loads}, "results": found},
        lambda path: _draw(found, path),
    )


def claims(load: str, found: Mapping[str, Sequence[ReshapeResult]]) -> Iterator[Claim]:
    """Yield the paper's gains, then what must hold for nobody to lose by it."""
    rates = LOADS[load][1]
    for name in (TP4, RESERVED, SEESAW):
        gains = [ours.rate / other.rate for ours, other in zip(found[OURS], found[name], strict=True)]
        yield Claim(
            f"With {load}: at least {GAIN}x the throughput of {name} at some rate.",
            max(gains) >= GAIN,
            ", ".join(f"{gain:.2f}x at {rate:g}/s" for gain, rate in zip(gains, rates, strict=True)) + ".",
        )
    shares = [ours.rate / best.rate for ours, best in zip(found[OURS], found[BEST], strict=True)]
    yield Claim(
        f"With {load}: never less than {FLOOR:g} of the throughput of the best shapes for good.",
        min(shares) >= FLOOR,
        ", ".join(f"{share:.2f}x at {rate:g}/s" for share, rate in zip(shares, rates, strict=True)) + ".",
        ours=True,
    )
    if load != OSCILLATING:
        return
    hourly = [_hourly(result) for result in found[OURS]]
    yield Claim(
        f"With {load}: no group oscillates (more than {MOST_CHANGES:.0f} changes an hour).",
        max(hourly) <= MOST_CHANGES,
        ", ".join(f"{one:.0f} an hour at {rate:g}/s" for one, rate in zip(hourly, rates, strict=True)) + ".",
        ours=True,
    )


def best_of(results: Sequence[ReshapeResult]) -> ReshapeResult:
    """Return the run whose worse kind of requests was in time most often, of equals the fastest."""
    return max(results, key=lambda result: (min(result.short_in_time, result.long_in_time), result.rate))


def _found(load: str, count: int, show: Show) -> dict[str, list[ReshapeResult]]:
    make, rates = LOADS[load]
    found: dict[str, list[ReshapeResult]] = {name: [] for name in NAMES}
    for done, rate in enumerate(rates):
        if show:
            show(f"{load} at {rate:g}/s", done, len(rates))
        requests = make(rate, count, SEED)
        found[OURS].append(run(FLEET, requests, None))
        found[SEESAW].append(run(FLEET, requests, None, dearer=DEARER))
        for name, shapes in _STATIC.items():
            found[name].append(run(FLEET, requests, shapes))
        found[BEST].append(best_of([run(FLEET, requests, shapes) for shapes in arrangements(FLEET)]))
    return found


def _hourly(result: ReshapeResult) -> float:
    """Changes of a group in an hour."""
    return len(result.changes) / FLEET.groups / result.seconds * 3600


def _shown(result: ReshapeResult) -> str:
    ttfts = " / ".join("-" if value is None else f"{value:.2f}" for value in (result.short_ttft, result.long_ttft))
    tpot = "-" if result.tpot is None else f"{1e3 * result.tpot:.0f}"
    return f"{result.rate:,.0f} / {ttfts} / {tpot} / {result.short_in_time:.0%}, {result.long_in_time:.0%}"


def _draw(found: Found, path: Path) -> None:
    figures: tuple[tuple[str, Callable[[ReshapeResult], float]], ...] = (
        ("tokens/s", lambda result: result.rate),
        ("TTFT of short requests, p50, s", lambda result: result.short_ttft or 0.0),
        ("TTFT of long requests, p50, s", lambda result: nan if result.long_ttft is None else result.long_ttft),
        ("TPOT, ms", lambda result: 1e3 * (result.tpot or 0.0)),
    )
    grid = [
        [
            Panel(
                load,
                "requests/s",
                label,
                [Line(name, LOADS[load][1], [of(one) for one in results[name]]) for name in NAMES],
            )
            for label, of in figures
        ]
        for load, results in found.items()
    ]
    draw_panels(grid, "Amoeba, Figure 14", path)
