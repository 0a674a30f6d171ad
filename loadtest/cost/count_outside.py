"""Counts what can be counted from outside of a worker: calls, bytes, instructions, less what it does without load."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from loadtest.cost import instructions, system_calls, wire
from loadtest.cost.cost_stack import cost_stack
from loadtest.cost.load import Load, load, wait_for_phase
from loadtest.cost.price import REQUEST, TOKEN, Price, Prices, without_tokens
from loadtest.cost.scenarios import Scenario

#: Does some work and returns what was counted meanwhile, by name.
_Count = Callable[[Callable[[], None]], Mapping[str, float]]
_IDLE_SECONDS: Final = 5.0
#: Laps before a count and of it: requests one by one, and streams together.
_WARM_UP, _LAPS = 200, 400
_STREAM_WARM_UP, _STREAM_LAPS = 2, 5
#: The same under callgrind, and a step of the engine in milliseconds: the worker is 50 times slower.
_SLOW_WARM_UP, _SLOW_LAPS = 50, 100
_SLOW_STREAM_WARM_UP, _SLOW_STREAM_LAPS = 1, 3
_SLOW_PACE_MS: Final = 60.0


def count_wire_and_calls(scenarios: Sequence[Scenario], at: Callable[[str], None] = lambda _: None) -> Prices:
    """Count round trips, bytes and system calls of scenarios with one setup, one after the other. Raises BenchError."""
    found: Prices = {}
    with cost_stack(scenarios[0].setup) as stack:
        for scenario in scenarios:
            with load(stack, scenario) as requests:
                at(f"{scenario.name}: bytes")
                _warm_up(requests, _STREAM_WARM_UP if scenario.stream else _WARM_UP)
                laps = _STREAM_LAPS if scenario.stream else _LAPS
                counts = [_counted(wire.wire_counter(stack, requests.client), requests, laps)]
                if system_calls.missing() is None:
                    at(f"{scenario.name}: system calls")
                    counts.append(_counted(system_calls.system_call_counter(stack.worker_pid), requests, laps))
                _enter(found, requests, counts)
    return found


def count_instructions(scenarios: Sequence[Scenario], at: Callable[[str], None] = lambda _: None) -> Prices:
    """Count instructions, misses and allocations of scenarios with one setup. Raises BenchError."""
    found: Prices = {}
    with cost_stack(scenarios[0].setup, command=instructions.valgrind_command, pace_ms=_SLOW_PACE_MS) as stack:
        counting = False
        for scenario in scenarios:
            at(f"{scenario.name}: instructions")
            with load(stack, scenario) as requests:
                _warm_up(requests, _STREAM_WARM_UP if scenario.stream else _WARM_UP)
                if not counting:
                    instructions.start_counting(stack.worker_pid)
                    counting = True
                _warm_up(requests, _SLOW_STREAM_WARM_UP if scenario.stream else _SLOW_WARM_UP)
                laps = _SLOW_STREAM_LAPS if scenario.stream else _SLOW_LAPS
                count = instructions.instruction_counter(stack.worker_pid, stack.folder)
                _enter(found, requests, [_counted(count, requests, laps)])
    return found


def _warm_up(requests: Load, laps: int) -> None:
    for model in requests.scenario.models:
        requests.warm_up(model, laps)


def _counted(count: _Count, requests: Load, laps: int) -> list[dict[str, float]]:
    """Return the counts of one request of each model."""
    scenario = requests.scenario
    settle = scenario.setup.settle_seconds
    time.sleep(settle)
    idle, idle_seconds = _timed(count, lambda: wait_for_phase(_IDLE_SECONDS, wait_for_phase()))
    found = []
    for model in scenario.models:

        def work(model: str = model) -> None:
            began = wait_for_phase()
            for _ in range(laps):
                requests.lap(model)
            wait_for_phase(float(int(time.monotonic() - began + settle) + 1), began)

        counts, seconds = _timed(count, work)
        asked = laps * scenario.clients
        found.append(
            {
                name: max(0.0, value - idle.get(name, 0.0) * seconds / idle_seconds) / asked
                for name, value in counts.items()
            }
        )
    return found


def _timed(count: _Count, work: Callable[[], object]) -> tuple[Mapping[str, float], float]:
    """Count, and return also the seconds that the work took."""
    began = ended = 0.0

    def timed() -> None:
        nonlocal began, ended
        began = time.monotonic()
        work()
        ended = time.monotonic()

    return count(timed), ended - began


def _enter(found: Prices, requests: Load, counted: Sequence[list[dict[str, float]]]) -> None:
    scenario = requests.scenario
    merged: list[dict[str, float]] = [{} for _ in scenario.models]
    for counts in counted:
        for into, of_model in zip(merged, counts, strict=True):
            into.update(of_model)
    if scenario.stream:
        request, token = without_tokens(merged[0], merged[1], requests.lengths)
        found[f"{scenario.name}{REQUEST}"] = Price(counts=request)
        found[f"{scenario.name}{TOKEN}"] = Price(counts=token)
    else:
        found[scenario.name] = Price(counts=merged[0])
