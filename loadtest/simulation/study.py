"""A study: compares policies over rates, one simulation per cell, in as many processes as cores."""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from itertools import count

import msgspec

from loadtest.simulation.baselines import POLICIES
from loadtest.simulation.goodput import Goodput, Misses, find_goodput
from loadtest.simulation.simulate import Result, simulate
from loadtest.simulation.simulated_fleet import Fleet
from loadtest.simulation.simulated_requests import TimedRequest
from loadtest.simulation.simulation_metrics import Summary, summary
from loadtest.simulation.workload import Workload, WorkloadSpec
from routing.contracts.policy import RoutingPolicy
from routing.contracts.policy_settings import PolicySettings

#: Start of the search for goodput with synthetic load, requests/s.
_START = 4.0
#: Seconds between a process's checks whether its parent is alive.
_CHECK_SECONDS = 1.0


class Study(msgspec.Struct, frozen=True):
    """The study's parameters. `lowest` and `highest` bound the search for goodput, in requests/s."""

    fleet: Fleet
    workload: WorkloadSpec
    policies: tuple[str, ...]
    rates: tuple[float, ...] = ()
    goodput: bool = False
    lowest: float = 0.01
    highest: float = 10_000.0
    workers: int = 1
    oracle: bool = False
    max_tokens: int | None = None
    settings: PolicySettings = PolicySettings()


class PolicyResult(msgspec.Struct, frozen=True):
    """One policy's results: a summary per rate, and its goodput if requested."""

    policy: str
    summaries: list[Summary]
    goodput: Goodput | None


def run_study(study: Study, show: Callable[[str, float, int], None] | None = None) -> list[PolicyResult]:
    """Run all cells. `show` gets the cell that has just ended, the number of ended cells, and the total.

    Without rates and without a search for goodput the trace is run as recorded. Raises TraceError before any process is
    started.
    """
    rates = study.rates or (() if study.goodput else (_workload(study.workload).native or _START,))
    cells = [_Cell(study, policy, rate) for policy in study.policies for rate in rates]
    cells += [_Cell(study, policy) for policy in study.policies if study.goodput]
    results: dict[tuple[str, float | None], Summary | Goodput] = {}
    for done, (cell, result) in enumerate(_results(cells), 1):
        results[cell.policy, cell.rate] = result
        if show:
            show(cell.name, done, len(cells))
    found = []
    for policy in study.policies:
        summaries = [result for rate in rates if isinstance(result := results[policy, rate], Summary)]
        goodput = results.get((policy, None))
        found.append(PolicyResult(policy, summaries, goodput if isinstance(goodput, Goodput) else None))
    return found


class _Cell(msgspec.Struct, frozen=True):
    """One policy at one rate; without a rate the search for its goodput."""

    study: Study
    policy: str
    rate: float | None = None

    @property
    def name(self) -> str:
        """The label in the progress bar."""
        return f"goodput of {self.policy}" if self.rate is None else f"{self.policy} at {self.rate:g}/s"

    def run(self) -> Summary | Goodput:
        """Simulate in this process."""
        workload = _workload(self.study.workload)
        if self.rate is not None:
            return summary(self._simulate(workload.at(self.rate)), self.study.settings.targets)
        lowest, highest = self.study.lowest, self.study.highest
        return find_goodput(self._passes, lowest, highest, start=workload.native or _START)

    def _passes(self, rate: float) -> bool:
        requests = _workload(self.study.workload).at(rate)
        return self._simulate(requests, Misses(len(requests), self.study.settings.targets)).complete

    def _simulate(self, requests: Sequence[TimedRequest], give_up: Misses | None = None) -> Result:
        study = self.study
        return simulate(
            study.fleet,
            requests,
            self._policies().__next__,
            workers=study.workers,
            oracle=study.oracle,
            max_tokens=study.max_tokens,
            give_up=give_up,
        )

    def _policies(self) -> Iterator[RoutingPolicy]:
        """Yield a policy per gateway worker, each with its own random seed."""
        settings = self.study.settings
        for seed in count(settings.seed or 0):
            yield POLICIES[self.policy](msgspec.structs.replace(settings, seed=seed))


@lru_cache(maxsize=1)
def _workload(spec: WorkloadSpec) -> Workload:
    """Load the workload, cached per process."""
    return spec.load()


def _results(cells: Sequence[_Cell]) -> Iterator[tuple[_Cell, Summary | Goodput]]:
    """Yield cells with their results as they are ready."""
    processes = min(len(cells), len(os.sched_getaffinity(0)))
    if processes <= 1:
        yield from ((cell, cell.run()) for cell in cells)
        return
    _workload(cells[0].study.workload)
    # Spawned, not forked: a fork would copy the progress bar's thread in an arbitrary state.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=end_with, initargs=(os.getpid(),)) as pool:
        pending = {pool.submit(cell.run): cell for cell in cells}
        try:
            for future in as_completed(pending):
                yield pending[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def end_with(parent: int) -> None:
    """End this process when its parent is gone, which, if killed, could not stop it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_CHECK_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
