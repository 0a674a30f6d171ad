"""Many rollouts of each scenario: how often they are rolled back, and after how many requests."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import sqrt
from typing import Final

import msgspec

from loadtest.simulation.rollouts.rollout_run import RolloutRun, RunOutcome
from loadtest.simulation.rollouts.scenario import Scenario

#: Runs that a process does before it tells of them.
_CHUNK: Final = 20
_SURE: Final = 0.95


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions of all runs: requests in a second, seconds of a stage at least and a run at most, and the seed."""

    rate: float
    hold: float
    limit: int
    seed: int


class ScenarioResult(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one scenario's runs, in shares of the runs.

    `requests` and `seconds` until the rollback are the median and the 95th percentile of those runs, in which the
    candidate answered so many; None: none was rolled back. `rolled_back_most` is the upper end of the one-sided 95 %
    interval: exact where there is none (Clopper and Pearson), else Wilson's.
    """

    scenario: str
    good: bool
    runs: int
    rolled_back: float
    rolled_back_most: float
    promoted: float
    waiting: float
    requests: tuple[int, int] | None
    seconds: tuple[int, int] | None
    promoted_seconds: int | None
    reasons: dict[str, int]


def study(
    scenarios: Sequence[Scenario],
    runs: int,
    conditions: Conditions,
    processes: int,
    show: Callable[[str, float, int], None] | None = None,
) -> Iterator[ScenarioResult]:
    """Run the scenarios one after the other; yield each one's result when it is there."""
    with ProcessPoolExecutor(processes) as pool:
        for scenario in scenarios:
            outcomes = []
            one = partial(_run, scenario, conditions)
            for outcome in pool.map(one, range(runs), chunksize=_CHUNK):
                outcomes.append(outcome)
                if show is not None:
                    show(scenario.name, len(outcomes), runs)
            yield _result(scenario, outcomes)


def _run(scenario: Scenario, conditions: Conditions, number: int) -> RunOutcome:
    seed = f"{conditions.seed} {scenario.name} {number}"
    return RolloutRun(scenario, seed, rate=conditions.rate, hold=conditions.hold, limit=conditions.limit).run()


def _result(scenario: Scenario, outcomes: Sequence[RunOutcome]) -> ScenarioResult:
    runs = len(outcomes)
    back = [each for each in outcomes if each.end == "rolled_back"]
    promoted = sorted(each.seconds for each in outcomes if each.end == "promoted")
    reasons: dict[str, int] = {}
    for each in back:
        cause = _cause(each.reason)
        reasons[cause] = reasons.get(cause, 0) + 1
    return ScenarioResult(
        scenario=scenario.name,
        good=scenario.good,
        runs=runs,
        rolled_back=len(back) / runs,
        rolled_back_most=_most(len(back), runs),
        promoted=len(promoted) / runs,
        waiting=sum(each.end == "waiting" for each in outcomes) / runs,
        requests=_middle_and_late([each.requests for each in back]),
        seconds=_middle_and_late([each.seconds for each in back]),
        promoted_seconds=promoted[len(promoted) // 2] if promoted else None,
        reasons=dict(sorted(reasons.items(), key=lambda item: -item[1])),
    )


def _cause(reason: str) -> str:
    """Return what a reason is about, without its figures."""
    if "requests failed" in reason:
        return "error rate over its bound"
    if reason.startswith("The 99th percentile of "):
        return f"p99 of {reason.split(' ')[4]} over its bound"
    measure, _, rest = reason.partition(" ")
    stratum = " in one stratum" if " of prompts" in reason else ""
    return measure.rstrip(":") + (" growing" if rest.startswith("grows") else stratum)


def _middle_and_late(values: Sequence[int]) -> tuple[int, int] | None:
    if not values:
        return None
    ordered = sorted(values)
    return ordered[len(ordered) // 2], ordered[min(int(0.95 * len(ordered)), len(ordered) - 1)]


def _most(events: int, runs: int) -> float:
    """Return the upper end of the one-sided interval of a share: exact for none, else Wilson's."""
    if not events:
        return 1.0 - float((1.0 - _SURE) ** (1.0 / runs))
    z = 1.6449
    share = events / runs
    middle = share + z * z / (2 * runs)
    return (middle + z * sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs))) / (1 + z * z / runs)
