"""Compares scalers on one load, each in a process of its own where cores allow."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Final, Literal

import msgspec

from loadtest.simulation.scalers import LAWS
from loadtest.simulation.scalers.benchmark import Benchmark
from loadtest.simulation.scalers.one_pool import OnePool
from loadtest.simulation.scalers.static import Static
from loadtest.simulation.scaling.calibration import Calibration, calibrate
from loadtest.simulation.scaling.fluid_run import run_fluid
from loadtest.simulation.scaling.history_forecast import HistoryForecast
from loadtest.simulation.scaling.request_run import run_requests
from loadtest.simulation.scaling.scaling_load import ScalingLoad
from loadtest.simulation.scaling.scaling_result import ScalingResult, needed_gpu_hours
from loadtest.simulation.scaling.virtual_pool import VirtualPool
from loadtest.simulation.study import end_with
from replicas.controller.decision import Scaler
from replicas.controller.model_scaler import ModelScaler
from replicas.controller.scaling_settings import ModelScaling

#: The scaler of Penstock; after it, with a colon, the only pool that it has, or that it has no spot capacity.
OURS: Final = "penstock"
ON_DEMAND: Final = "on-demand"
#: Requests up to which a load is run request by request unless told otherwise.
FEW_REQUESTS: Final = 100_000
#: Steps in seconds of the search for the best constant count of a long load.
_COARSE: Final = 10.0


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """What all contenders have in common. `every` is seconds between rounds; with `moves`, what runs on a preempted
    replica goes on elsewhere.
    """

    load: ScalingLoad
    pools: Sequence[VirtualPool]
    level: Literal["requests", "fluid"]
    every: float
    seed: int = 0
    moves: bool = True
    budget: float | None = None


class Measured(msgspec.Struct, frozen=True):
    """A scenario with what its pools' replicas do, by name."""

    scenario: Scenario
    calibrations: Mapping[str, Calibration]

    @property
    def cheapest(self) -> VirtualPool:
        """The pool whose requests cost least; the first one where prices are unknown."""

        def per_request(pool: VirtualPool) -> float:
            rate = self.calibrations[pool.name].goodput(self.scenario.load.slo.in_time).rate
            return (pool.scaling.price or 0.0) / rate if rate else float("inf")

        return min(self.scenario.pools, key=per_request)

    @property
    def goodput(self) -> float:
        """Requests per second that one replica of the cheapest pool serves in time."""
        return self.calibrations[self.cheapest.name].goodput(self.scenario.load.slo.in_time).rate


def measured(scenario: Scenario, known: Mapping[str, Calibration]) -> Measured:
    """Measure what one replica of each pool does that is not `known` by name; takes some seconds for each."""
    load = scenario.load
    unknown = [pool for pool in scenario.pools if pool.name not in known]
    return Measured(scenario, {**known, **{pool.name: calibrate(pool, load.lengths, load.slo) for pool in unknown}})


def check_names(names: Sequence[str]) -> None:
    """Raise ValueError, a line for the user, where there is no scaler of a name."""
    for name in names:
        if name != "static" and name not in LAWS:
            raise ValueError(f"--against: there is no scaler {name}; there are static, {', '.join(LAWS)}")


def contender_names(names: Sequence[str], scenario: Scenario) -> list[str]:
    """Return all contenders: ours, with each shape alone and without spot capacity where it has a choice; others."""
    alone = [f"{OURS}:{pool.name}" for pool in scenario.pools] if len(scenario.pools) > 1 else []
    if any(pool.scaling.spot_max for pool in scenario.pools):
        alone.append(f"{OURS}:{ON_DEMAND}")
    return [OURS, *alone, *names]


def run_scaling_study(
    found: Measured, names: Sequence[str], show: Callable[[str, float, int], None] | None = None
) -> list[ScalingResult]:
    """Run all contenders. `show` gets the one that has just ended, the number of ended ones, and the total."""
    results = {}
    for done, (name, result) in enumerate(_results(found, names), 1):
        results[name] = result
        if show:
            show(name, done, len(names))
    return [results[name] for name in names]


def run_contender(found: Measured, name: str) -> ScalingResult:
    """Run one contender in this process."""
    kind, _, only = name.partition(":")
    scenario = found.scenario
    if kind == OURS:
        pools = [pool for pool in scenario.pools if only in ("", ON_DEMAND, pool.name)]
        if only == ON_DEMAND:
            scalings = [msgspec.structs.replace(pool.scaling, spot_max=0) for pool in pools]
            pools = [msgspec.structs.replace(pool, scaling=one) for pool, one in zip(pools, scalings, strict=True)]
        settings = ModelScaling(
            model="simulated",
            pools=[pool.scaling for pool in pools],
            slo=scenario.load.slo,
            budget=scenario.budget,
        )
        return _run(found, name, lambda: ModelScaler(settings), pools)
    pool = found.cheapest
    if kind == "static":
        return _best_static(found, pool)
    goodput = found.calibrations[pool.name].goodput(scenario.load.slo.in_time)
    law = LAWS[kind](Benchmark(goodput.rate, goodput.answers), scenario.load.slo)
    return _run(found, name, lambda: OnePool(name, pool.scaling, law), [pool])


def _best_static(found: Measured, pool: VirtualPool) -> ScalingResult:
    """Return the result of the least constant count with the required share in time, or of the most there may be."""
    low, high = pool.scaling.min, pool.scaling.max
    required = found.scenario.load.slo.in_time

    def result(count: int, step: float) -> ScalingResult:
        return _run(found, "static", lambda: Static(pool.name, count), [pool], ready=count, step=step)

    step = _COARSE if found.scenario.level == "fluid" else 1.0
    low = max(low, 1)
    while low < high:
        middle = (low + high) // 2
        if result(middle, step).in_time >= required:
            high = middle
        else:
            low = middle + 1
    return result(low, 1.0)


def _run(
    found: Measured,
    name: str,
    scaler: Callable[[], Scaler],
    pools: Sequence[VirtualPool],
    *,
    ready: int | None = None,
    step: float = 1.0,
) -> ScalingResult:
    scenario, load = found.scenario, found.scenario.load
    counts = [pool.scaling.min for pool in pools]
    first = next((pool for pool in pools if pool.name == found.cheapest.name), pools[0])
    goodput = found.calibrations[first.name].goodput(load.slo.in_time).rate
    gpu_hours = needed_gpu_hours(load, found.goodput, found.cheapest.scaling)
    forecaster = HistoryForecast(load.history) if name.startswith(OURS) else None
    # All begin with what the first moment needs.
    at = pools.index(first)
    needed = max(counts[at], -int(-load.curve.at(0.0) // goodput) if goodput else 0)
    counts[at] = ready if ready is not None else min(needed, first.scaling.max)
    if scenario.level == "requests":
        return run_requests(
            name,
            scaler(),
            pools,
            counts,
            load,
            gpu_hours,
            every=scenario.every,
            seed=scenario.seed,
            moves=scenario.moves,
            early=not name.startswith(OURS),
            forecaster=forecaster,
        )
    return run_fluid(
        name,
        scaler(),
        pools,
        counts,
        load,
        gpu_hours,
        found.calibrations,
        every=scenario.every if name != "static" else load.curve.end,
        seed=scenario.seed,
        moves=scenario.moves,
        forecaster=forecaster,
        step=step,
    )


def _results(found: Measured, names: Sequence[str]) -> Iterator[tuple[str, ScalingResult]]:
    processes = min(len(names), len(os.sched_getaffinity(0)))
    if processes <= 1:
        yield from ((name, run_contender(found, name)) for name in names)
        return
    # Spawned, not forked: a fork would copy the progress bar's thread in an arbitrary state.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=end_with, initargs=(os.getpid(),)) as pool:
        pending = {pool.submit(run_contender, found, name): name for name in names}
        try:
            for future in as_completed(pending):
                yield pending[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)
