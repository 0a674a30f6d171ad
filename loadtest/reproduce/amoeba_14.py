"""Amoeba's Figure 14: throughput, TTFT and TPOT of shapes that change, beside shapes for good and dear changes."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Final

import msgspec

from loadtest.reproduce.amoeba_loads import ALTERNATION, FLEET, LOADS, SEED, SETTING, Load
from loadtest.reproduce.amoeba_traces import NEEDS_FILE
from loadtest.reproduce.figure_plots import Line, Panel, draw_panels
from loadtest.reproduce.reproduction import Claim, Reproduction, Show
from loadtest.simulation.reshape.reshape_run import ReshapeResult, Shapes, arrangements, run

OURS, SEESAW, TP1, TP4, RESERVED = "ours", "migration", "TP1", "TP4", "reserved TP4"
BEST, FASTEST = "best for good", "fastest for good"
NAMES: Final = (OURS, SEESAW, TP1, TP4, RESERVED, BEST, FASTEST)
#: What a migration through the host costs beside a change in place: the paper's figure for Seesaw.
DEARER: Final = 41.0
#: The paper's least gain over what is there, and the least share of the best static throughput that ours may have.
GAIN, FLOOR = 1.75, 0.98
#: The load that is made to let groups oscillate: elsewhere each change there and back pays, however many there are.
OSCILLATING: Final = ALTERNATION
#: Changes an hour and group from which on groups oscillate: one for each minute.
MOST_CHANGES: Final = 60.0
_STATIC: Final[Mapping[str, Shapes]] = {TP1: [[1] * 4] * 2, TP4: [[4]] * 2, RESERVED: [[4], [1] * 4]}
_SETTING: Final = (
    f"{SETTING} *Ours* begins with TP1 and changes; *migration* does the same at {DEARER:.0f} times the cost (Seesaw, "
    "by the paper); *reserved TP4* keeps one group wide for long requests, the paper's own practice in production. "
    "Of the nine arrangements of the eight GPUs, those that refuse no request (TP1 refuses the long ones) are compared "
    "at each rate: *best for good* is the one whose worse kind of requests, short or long, was in time most often, and "
    "of equals the one with the highest throughput; *fastest for good* is the one with the highest throughput. Nobody "
    "knows either beforehand. "
)


class Sizes(msgspec.Struct, frozen=True):
    """The loads; what is said of them, and what titles add. `requests` at each rate replace the loads' own numbers."""

    loads: Mapping[str, Load] = msgspec.field(default_factory=lambda: LOADS)
    said: str = NEEDS_FILE
    title: str = ""
    requests: int | None = None


#: Results by load and system, in the order of the load's rates.
Found = Mapping[str, Mapping[str, Sequence[ReshapeResult]]]


def reproduce(sizes: Sizes | None = None, show: Show = None) -> Reproduction:
    """Run all systems with all loads at all rates."""
    sizes = sizes or Sizes()
    loads = sizes.loads
    counts = {name: sizes.requests or load.requests for name, load in loads.items()}
    found = {name: _found(name, load, counts[name], show) for name, load in loads.items()}
    numbers = " or ".join(f"{count:,}" for count in sorted(set(counts.values())))
    return Reproduction(
        "Amoeba, Figure 14: shapes that change against shapes for good" + sizes.title,
        f"{_SETTING}{numbers} requests at each rate. {sizes.said}",
        ["tokens/s / TTFT p50 short, s / long, s / TPOT, ms / in time short, long", *NAMES],
        [
            [f"{name}, {rate:g}/s", *(_shown(found[name][system][at], system) for system in NAMES)]
            for name, load in loads.items()
            for at, rate in enumerate(load.rates)
        ],
        [claim for name, load in loads.items() for claim in claims(name, load.rates, found[name])],
        {"loads": {name: load.rates for name, load in loads.items()}, "results": found},
        lambda path: _draw(loads, found, path),
    )


def claims(load: str, rates: Sequence[float], found: Mapping[str, Sequence[ReshapeResult]]) -> Iterator[Claim]:
    """Yield the paper's gains, then what must hold for nobody to lose by it."""
    for name in (TP4, RESERVED, SEESAW, FASTEST):
        gains = _gains(found, name)
        yield Claim(
            f"With {load}: at least {GAIN}x the throughput of {name} at some rate.",
            max(gains) >= GAIN,
            _listed(gains, rates),
            ours=name == FASTEST,
        )
    shares = _gains(found, FASTEST)
    yield Claim(
        f"With {load}: never less than {FLOOR:g} of the throughput of the fastest shapes for good.",
        min(shares) >= FLOOR,
        _listed(shares, rates),
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


def serving(results: Sequence[ReshapeResult]) -> list[ReshapeResult]:
    """Return the runs that refused the fewest requests."""
    fewest = min(result.refused for result in results)
    return [result for result in results if result.refused == fewest]


def _gains(found: Mapping[str, Sequence[ReshapeResult]], name: str) -> list[float]:
    return [ours.rate / other.rate for ours, other in zip(found[OURS], found[name], strict=True)]


def _listed(gains: Sequence[float], rates: Sequence[float]) -> str:
    return ", ".join(f"{gain:.2f}x at {rate:g}/s" for gain, rate in zip(gains, rates, strict=True)) + "."


def _found(name: str, load: Load, count: int, show: Show) -> dict[str, list[ReshapeResult]]:
    found: dict[str, list[ReshapeResult]] = {system: [] for system in NAMES}
    # For good, it makes no difference which group a replica is in.
    ways = list({_widths(shapes): shapes for shapes in arrangements(FLEET)}.values())
    for done, rate in enumerate(load.rates):
        requests = load.make(rate, count, SEED)
        static = {}
        for at, shapes in enumerate(ways):
            if show:
                show(f"{name} at {rate:g}/s", done * len(ways) + at, len(load.rates) * len(ways))
            static[_widths(shapes)] = run(FLEET, requests, shapes)
        found[OURS].append(run(FLEET, requests, None))
        found[SEESAW].append(run(FLEET, requests, None, dearer=DEARER))
        for system, shapes in _STATIC.items():
            found[system].append(static[_widths(shapes)])
        able = serving(list(static.values()))
        found[BEST].append(best_of(able))
        found[FASTEST].append(max(able, key=lambda result: result.rate))
    return found


def _widths(shapes: Shapes) -> tuple[int, ...]:
    return tuple(sorted((width for group in shapes for width in group), reverse=True))


def _hourly(result: ReshapeResult) -> float:
    """Changes of a group in an hour."""
    return len(result.changes) / FLEET.groups / result.seconds * 3600


def _shown(result: ReshapeResult, system: str) -> str:
    ttfts = " / ".join("-" if value is None else f"{value:.2f}" for value in (result.short_ttft, result.long_ttft))
    tpot = "-" if result.tpot is None else f"{1e3 * result.tpot:.0f}"
    shown = f"{result.rate:,.0f} / {ttfts} / {tpot} / {result.short_in_time:.0%}, {result.long_in_time:.0%}"
    if system not in (BEST, FASTEST):
        return shown
    return f"{shown} ({', '.join(f'{count}x TP{width}' for width, count in Counter(_widths(result.shapes)).items())})"


def _draw(loads: Mapping[str, Load], found: Found, path: Path) -> None:
    figures: tuple[tuple[str, Callable[[ReshapeResult], float]], ...] = (
        ("tokens/s", lambda result: result.rate),
        ("TTFT of short requests, p50, s", lambda result: result.short_ttft or 0.0),
        ("TTFT of long requests, p50, s", lambda result: nan if result.long_ttft is None else result.long_ttft),
        ("TPOT, ms", lambda result: 1e3 * (result.tpot or 0.0)),
    )
    drawn = [name for name in NAMES if name != FASTEST]
    grid = [
        [
            Panel(
                name,
                "requests/s",
                label,
                [Line(system, load.rates, [of(one) for one in found[name][system]]) for system in drawn],
            )
            for label, of in figures
        ]
        for name, load in loads.items()
    ]
    draw_panels(grid, "Amoeba, Figure 14", path)
