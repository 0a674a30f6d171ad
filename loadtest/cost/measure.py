"""Serves the scenarios and counts what they cost."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

import msgspec

from loadtest.cost.bytecodes import Baseline, FunctionPrice, baseline, by_package, by_part, per_token, prices
from loadtest.cost.cost_client import CostClient
from loadtest.cost.cost_stack import CostStack, cost_stack
from loadtest.cost.scenarios import LENGTHS, STREAMS, Scenario, body
from loadtest.load.track import Track

#: Seconds of the count without load, and its requests.
_BASE_SECONDS = 3.0
_BASE_REQUESTS = 12
#: Windows begin and end at this part of a second: what a worker does at whole seconds or quarters of them is done as
#: often in each window of as many seconds.
_PHASE = 0.6
_WARM_UP = 300
_LAPS = 200
_STREAM_WARM_UP = 3
_STREAM_LAPS = 6


class Bytecodes(msgspec.Struct, frozen=True):
    """Bytecodes of one thing: a request, or a token."""

    total: float
    packages: dict[str, float]
    parts: dict[str, float]
    functions: list[FunctionPrice]


def measure(
    scenarios: Sequence[Scenario], show: Callable[[str, float, int], None] | None = None
) -> dict[str, Bytecodes]:
    """Count the bytecodes of scenarios, by `SCENARIO` or, for streams, `SCENARIO request` and `SCENARIO token`.

    `show` gets the progress, see `Track`. Raises BenchError.
    """
    track = Track(len(scenarios), show)
    found: dict[str, Bytecodes] = {}
    for setup, group in groupby(scenarios, key=lambda scenario: scenario.setup):
        track.at(f"{setup.name}: starting a gateway")
        with cost_stack(setup) as stack:
            base: Baseline | None = None
            for scenario in group:
                track.at(scenario.name)
                base = base or count_baseline(stack, scenario)
                for of, bytecodes in count_bytecodes(stack, scenario, base).items():
                    found[f"{scenario.name} {of}" if scenario.stream else scenario.name] = bytecodes
                track.part_done()
    return found


def count_baseline(stack: CostStack, scenario: Scenario) -> Baseline:
    """Count what the worker does with very few requests."""
    request = [body(scenario, LENGTHS[0])]
    with _client(stack, 1) as client:
        client.ask(request)
        _wait_for_phase()
        stack.counter.begin()
        for _ in range(_BASE_REQUESTS):
            client.ask(request)
            time.sleep(_BASE_SECONDS / _BASE_REQUESTS / 2)
        _wait_for_phase(_BASE_SECONDS)
        return baseline(stack.counter.end(), _BASE_SECONDS, _BASE_REQUESTS)


def count_bytecodes(stack: CostStack, scenario: Scenario, base: Baseline) -> dict[str, Bytecodes]:
    """Count a scenario's bytecodes, by `request` and, for streams, by `token`."""
    answers = _window(stack, scenario, base)
    if not scenario.stream:
        return {"request": _summed(answers[0])}
    short, long = answers
    tokens = per_token(short, long, LENGTHS[1] - LENGTHS[0])
    answer = per_token(tokens_of(tokens, LENGTHS[0]), short, 1)
    return {"request": _summed(answer), "token": _summed(tokens)}


def tokens_of(token: list[FunctionPrice], count: int) -> list[FunctionPrice]:
    """Return the price of so many tokens."""
    return [msgspec.structs.replace(price, bytecodes=price.bytecodes * count) for price in token]


def _window(stack: CostStack, scenario: Scenario, base: Baseline) -> list[list[FunctionPrice]]:
    """Count requests; those with long and short answers take turns, as a worker learns from all of them."""
    clients, laps, warm_up = (STREAMS, _STREAM_LAPS, _STREAM_WARM_UP) if scenario.stream else (1, _LAPS, _WARM_UP)
    lengths = LENGTHS if scenario.stream else LENGTHS[:1]
    kinds = [[body(scenario, length)] * clients for length in lengths]
    settle = scenario.setup.settle_seconds
    with _client(stack, clients) as client:
        for _ in range(warm_up):
            for requests in kinds:
                client.ask(requests)
        time.sleep(settle)
        began = _wait_for_phase()
        stack.counter.begin()
        for _ in range(laps):
            for requests in kinds:
                client.ask(requests)
                stack.counter.lap()
        seconds = float(math.ceil(time.monotonic() - began + settle))
        _wait_for_phase(seconds, began)
        rows = stack.counter.end()
    return prices(rows, base, seconds=seconds, lap_requests=clients, kinds=len(kinds))


def _summed(found: list[FunctionPrice]) -> Bytecodes:
    packages = by_package(found)
    return Bytecodes(sum(packages.values()), packages, dict(by_part(found)), found)


@contextmanager
def _client(stack: CostStack, connections: int) -> Iterator[CostClient]:
    client = CostClient(stack.port, stack.key, connections)
    try:
        yield client
    finally:
        client.close()


def _wait_for_phase(seconds: float = 0.0, since: float | None = None) -> float:
    """Wait for the phase of a second at which windows begin and end; return when that was."""
    now = time.monotonic()
    due = now - now % 1 + _PHASE if since is None else since + seconds
    while due < now:
        due += 1
    time.sleep(due - now)
    return due
