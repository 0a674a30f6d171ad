"""ScaleLLM's Experiment 4 (section 5.2): throughput over concurrent requests of several shapes on eight GPUs."""

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Final

import msgspec

from loadtest.reproduce.closed_loop import ClosedLoop
from loadtest.reproduce.engine_model import SCALELLM_BATCH, SCALELLM_MAX_OUTPUT, SCALELLM_MODEL, Fleet, conversation
from loadtest.reproduce.figure_plots import Line, Panel, draw_panels
from loadtest.reproduce.reproduction import Show
from loadtest.simulation import simulated_fleet as simulated
from loadtest.simulation.simulated_requests import TimedRequest
from routing.policies.least_load import LeastLoad

#: Concurrencies of the figures' two halves.
LOW: Final = (1, 2, 4, 8, 16, 32)
HIGH: Final = (64, 96, 128, 192, 256)
#: Requests per client, as in the paper.
PER_CLIENT: Final = 20

_SETTING: Final = (
    f"A closed loop: each client sends its next request when the last one has ended, {{per_client}} requests a client, "
    f"as in the paper; runs of few requests are repeated with others until there are {{least}}, and the mean is shown. "
    f"{SCALELLM_MODEL} on eight H100s, at most {SCALELLM_BATCH} sequences a batch and {SCALELLM_MAX_OUTPUT} output "
    "tokens. The paper does not give lengths: here prompts are log-normal with median 250 and answers with median 180 "
    "tokens. The paper shows its numbers only as a picture, so what is compared is what it says."
)

#: Output tokens/s by concurrency and fleet name.
Throughputs = Mapping[int, Mapping[str, float]]


class Sweep(msgspec.Struct, frozen=True):
    """A sweep with `per_client` requests per client. Runs are repeated until they have `least` requests in all."""

    low: Sequence[int] = LOW
    high: Sequence[int] = HIGH
    least: int = 400
    per_client: int = PER_CLIENT

    def run(self, fleets: Sequence[Fleet], show: Show = None) -> dict[int, dict[str, float]]:
        """Run every fleet at every concurrency, with the same requests in the same order."""
        table: dict[int, dict[str, float]] = {}
        concurrencies = (*self.low, *self.high)
        for done, clients in enumerate(concurrencies):
            if show:
                show(f"{clients} at a time", done, len(concurrencies))
            seeds = range(ceil(self.least / (self.per_client * clients)))
            table[clients] = {f.name: fmean(self._throughput(f, clients, seed) for seed in seeds) for f in fleets}
        return table

    @property
    def setting(self) -> str:
        """Describe the setting in words."""
        return _SETTING.format(least=self.least, per_client=self.per_client)

    def _throughput(self, fleet: Fleet, clients: int, seed: int) -> float:
        shape = simulated.PoolShape(fleet.shape.tp, fleet.shape.ep, fleet.shape.pp)
        pool = simulated.Pool("pool", shape, replicas=fleet.replicas, max_batch_size=SCALELLM_BATCH)
        loop = ClosedLoop(simulated.Fleet((pool,), SCALELLM_MODEL), LeastLoad, max_tokens=SCALELLM_MAX_OUTPUT)
        rng = random.Random(seed)

        def draw(now: float) -> TimedRequest:
            drawn = conversation(rng)
            return TimedRequest(now, drawn.prompt, drawn.steps)

        return loop.throughput(draw, clients, self.per_client * clients)


def wins(table: Throughputs, first: str, second: str, where: Sequence[int]) -> bool:
    """Whether one fleet is faster than another at all these concurrencies."""
    return all(table[c][first] > table[c][second] for c in where)


def lead(table: Throughputs, first: str, second: str, clients: int) -> float:
    """Return by which share one fleet is faster than another; negative where it is slower."""
    return table[clients][first] / table[clients][second] - 1


def leads(table: Throughputs, first: str, second: str, where: Sequence[int]) -> str:
    """Describe the leads at several concurrencies."""
    return ", ".join(f"{lead(table, first, second, c):+.1%} at {c}" for c in where)


def passes_at(table: Throughputs, first: str, second: str) -> int | None:
    """Return the concurrency from which on one fleet stays ahead of another; None where it ends behind."""
    ahead = None
    for clients in sorted(table, reverse=True):
        if table[clients][first] <= table[clients][second]:
            break
        ahead = clients
    return ahead


def rows(table: Throughputs) -> list[list[str]]:
    """Format the table; the best fleet at each concurrency is marked."""
    found = []
    for clients, row in table.items():
        best = max(row.values())
        found.append([str(clients), *(f"{value:,.0f}{' *' if value == best else ''}" for value in row.values())])
    return found


def draw(table: Throughputs, sweep: Sweep, title: str) -> Callable[[Path], None]:
    """Draw the figure: its two halves with a line per fleet, and beside them each fleet relative to the first."""
    names = tuple(table[sweep.low[0]])
    everywhere = (*sweep.low, *sweep.high)

    def panel(heading: str, where: Sequence[int]) -> Panel:
        lines = [Line(name, where, [table[c][name] for c in where]) for name in names]
        return Panel(heading, "concurrent requests", "output tokens/s", lines, _spaced_evenly(where))

    halves = (panel("low concurrency", sweep.low), panel("high concurrency", sweep.high))
    relative = Panel(
        f"all, relative to {names[0]}",
        "concurrent requests",
        "difference, %",
        [Line(name, everywhere, [100 * lead(table, name, names[0], c) for c in everywhere]) for name in names],
        doubling=True,
        signed=True,
    )
    return lambda path: draw_panels([(*halves, relative)], title, path)


def _spaced_evenly(where: Sequence[int]) -> bool:
    """Whether an axis of doubling ticks shows the values better."""
    return all(after == 2 * before for before, after in pairwise(where))
