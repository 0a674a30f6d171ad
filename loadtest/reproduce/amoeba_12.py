"""Amoeba's Figures 12 and 13: groups that change their shapes, under three ways to place requests."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Final

import msgspec

from loadtest.reproduce.amoeba_loads import CODE_WITH_LONG, FLEET, LOADS, SEED, SETTING, Load
from loadtest.reproduce.amoeba_traces import NEEDS_FILE
from loadtest.reproduce.figure_plots import Line, Panel, draw_panels
from loadtest.reproduce.reproduction import Claim, Reproduction, Show
from loadtest.simulation.reshape.reshape_run import WINDOW, ReshapeResult, run

RR, LEAST, OURS = "round_robin", "least_load", "auto"
NAMES: Final = (RR, LEAST, OURS)
#: Relative difference above which a policy is better.
BETTER: Final = 0.02
_SETTING: Final = (
    f"{SETTING} The load is *{{load}}*; {{requests:,}} requests at each rate, and all three place requests on the same "
    "groups, which begin as TP1 and change by the same rules. The paper names its strategies RR, LLF and its own. "
    "{said}"
)


class Sizes(msgspec.Struct, frozen=True):
    """The load and its name; what is said of it, and what titles add."""

    name: str = CODE_WITH_LONG
    load: Load = msgspec.structs.replace(LOADS[CODE_WITH_LONG], requests=1500)
    said: str = NEEDS_FILE
    title: str = ""

    @property
    def setting(self) -> str:
        """What is said of the figure."""
        return _SETTING.format(load=self.name, requests=self.load.requests, said=self.said)

    @property
    def highest(self) -> "Sizes":
        """The same at the highest rate alone."""
        return msgspec.structs.replace(self, load=msgspec.structs.replace(self.load, rates=self.load.rates[-1:]))


#: Results by policy, in the order of the rates.
Found = Mapping[str, Sequence[ReshapeResult]]


def reproduce(sizes: Sizes | None = None, show: Show = None) -> Reproduction:
    """Compare the three by throughput and latency (Figure 12)."""
    sizes = sizes or Sizes()
    found, rates = _found(sizes, show), sizes.load.rates
    return Reproduction(
        "Amoeba, Figure 12: three ways to place requests on groups that change" + sizes.title,
        sizes.setting,
        ["tokens/s / TTFT p50 short, s / long, s / in time short, long", *NAMES],
        [[f"{rate:g}/s", *(_shown(found[name][at]) for name in NAMES)] for at, rate in enumerate(rates)],
        list(claims(rates, found)),
        {"rates": rates, "results": found},
        lambda path: _draw(sizes, found, path),
    )


def over_time(sizes: Sizes | None = None, show: Show = None) -> Reproduction:
    """Draw the throughput over time at the highest rate (Figure 13)."""
    sizes = (sizes or Sizes()).highest
    found = _found(sizes, show)
    results = {name: found[name][-1] for name in NAMES}
    ours, others = fmean(results[OURS].over_time), max(fmean(results[name].over_time) for name in (RR, LEAST))
    rate = sizes.load.rates[-1]
    claim = Claim(
        "Its own placement has the highest throughput of the three over the whole run.",
        ours > others,
        f"at {rate:g}/s {ours:,.0f} tokens/s against {others:,.0f}, mean of windows of {WINDOW:.0f} s.",
    )
    return Reproduction(
        "Amoeba, Figure 13: throughput over time" + sizes.title,
        sizes.setting,
        ["", *NAMES],
        [
            ["mean, tokens/s", *(f"{fmean(results[name].over_time):,.0f}" for name in NAMES)],
            ["lowest window after the first minute, tokens/s", *(_lowest(results[name]) for name in NAMES)],
            ["changes of shape", *(f"{len(results[name].changes)}" for name in NAMES)],
            ["s that they held replicas up", *(f"{results[name].held_up:.1f}" for name in NAMES)],
        ],
        [claim],
        {"rate": rate, "results": results},
        lambda path: _draw_over_time(sizes.name, rate, results, path),
    )


def claims(rates: Sequence[float], found: Found) -> Iterator[Claim]:
    """Yield the paper's claim for each rival."""
    for name in (RR, LEAST):
        more = [ours.rate / other.rate - 1 for ours, other in zip(found[OURS], found[name], strict=True)]
        yield Claim(
            f"The throughput is higher than with {name} at every rate (by more than {BETTER:.0%}).",
            min(more) > BETTER,
            ", ".join(f"{one:+.0%} at {rate:g}/s" for rate, one in zip(rates, more, strict=True)) + ".",
        )


def _found(sizes: Sizes, show: Show) -> Found:
    found: dict[str, list[ReshapeResult]] = {name: [] for name in NAMES}
    load = sizes.load
    for done, rate in enumerate(load.rates):
        requests = load.make(rate, load.requests, SEED)
        for at, name in enumerate(NAMES):
            if show:
                show(f"{name} at {rate:g}/s", done * len(NAMES) + at, len(load.rates) * len(NAMES))
            found[name].append(run(FLEET, requests, None, policy=name))
    return found


def _lowest(result: ReshapeResult) -> str:
    windows = result.over_time[int(60 / WINDOW) : -1]
    return f"{min(windows):,.0f}" if windows else "-"


def _shown(result: ReshapeResult) -> str:
    ttfts = " / ".join("-" if value is None else f"{value:.2f}" for value in (result.short_ttft, result.long_ttft))
    return f"{result.rate:,.0f} / {ttfts} / {result.short_in_time:.0%}, {result.long_in_time:.0%}"


def _draw(sizes: Sizes, found: Found, path: Path) -> None:
    figures: tuple[tuple[str, Callable[[ReshapeResult], float]], ...] = (
        ("tokens/s", lambda result: result.rate),
        ("TTFT of short requests, p95, s", lambda result: result.short_ttft_p95 or 0.0),
        ("TTFT of long requests, p50, s", lambda result: result.long_ttft or 0.0),
    )
    panels = [
        Panel(
            sizes.name,
            "requests/s",
            label,
            [Line(name, sizes.load.rates, [of(one) for one in found[name]]) for name in NAMES],
        )
        for label, of in figures
    ]
    draw_panels([panels], "Amoeba, Figure 12", path)


def _draw_over_time(load: str, rate: float, results: Mapping[str, ReshapeResult], path: Path) -> None:
    lines = [
        Line(name, [WINDOW * at for at in range(len(results[name].over_time) - 1)], results[name].over_time[:-1])
        for name in NAMES
    ]
    draw_panels([[Panel(f"{load}, {rate:g}/s", "s", "tokens/s", lines)]], "Amoeba, Figure 13", path)
