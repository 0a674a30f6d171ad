"""Counts the bytecodes of scenarios in a worker that is traced."""

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from loadtest.cost.bytecodes import Baseline, FunctionPrice, baseline, prices
from loadtest.cost.cost_stack import CostStack, cost_stack
from loadtest.cost.counter_server import CounterClient, connected
from loadtest.cost.load import Load, load, wait_for_phase
from loadtest.cost.price import Price, Prices, summed, without_tokens
from loadtest.cost.scenarios import Scenario

#: Seconds of the count without load, and its requests.
_BASE_SECONDS = 3.0
_BASE_REQUESTS = 12
#: Laps before the count and of it: requests one by one, and streams together.
_WARM_UP, _LAPS = 300, 200
_STREAM_WARM_UP, _STREAM_LAPS = 3, 6


def count_bytecodes(scenarios: Sequence[Scenario], at: Callable[[str], None] = lambda _: None) -> Prices:
    """Count the bytecodes of scenarios with one setup. `at` gets the name of what is under way. Raises BenchError."""
    found: Prices = {}
    with _counted_stack(scenarios[0]) as (stack, counter):
        base: Baseline | None = None
        for scenario in scenarios:
            at(f"{scenario.name}: bytecodes")
            with load(stack, scenario) as requests:
                base = base or _baseline(counter, requests)
                window = _window(counter, requests, base)
                if scenario.stream:
                    request, token = _apart(*window, requests.lengths)
                    found[f"{scenario.name} request"] = Price(summed(request))
                    found[f"{scenario.name} token"] = Price(summed(token))
                else:
                    found[scenario.name] = Price(summed(window[0]))
    return found


@contextlib.contextmanager
def _counted_stack(scenario: Scenario) -> Iterator[tuple[CostStack, CounterClient]]:
    def command(folder: Path) -> list[str]:
        return [sys.executable, "-m", "loadtest.cost.counted_serve", str(folder / "counter.sock")]

    with cost_stack(scenario.setup, command=command) as stack, connected(str(stack.folder / "counter.sock")) as counter:
        yield stack, counter


def _baseline(counter: CounterClient, requests: Load) -> Baseline:
    """Count what the worker does with very few requests."""
    requests.ask_one()
    began = wait_for_phase()
    counter.begin()
    for _ in range(_BASE_REQUESTS):
        requests.ask_one()
        time.sleep(_BASE_SECONDS / _BASE_REQUESTS / 2)
    wait_for_phase(_BASE_SECONDS, began)
    return baseline(counter.end(), _BASE_SECONDS, _BASE_REQUESTS)


def _window(counter: CounterClient, requests: Load, base: Baseline) -> list[list[FunctionPrice]]:
    """Count requests; those with long and short answers take turns, as a worker learns from all of them."""
    scenario = requests.scenario
    requests.warm_up(_STREAM_WARM_UP if scenario.stream else _WARM_UP)
    time.sleep(scenario.setup.settle_seconds)
    began = wait_for_phase()
    counter.begin()
    for _ in range(_STREAM_LAPS if scenario.stream else _LAPS):
        for model in scenario.models:
            requests.lap(model)
            counter.lap()
    seconds = float(math.ceil(time.monotonic() - began + scenario.setup.settle_seconds))
    wait_for_phase(seconds, began)
    rows = counter.end()
    return prices(rows, base, seconds=seconds, lap_requests=scenario.clients, kinds=len(scenario.models))


def _apart(
    short: list[FunctionPrice], long: list[FunctionPrice], lengths: tuple[int, int]
) -> tuple[list[FunctionPrice], list[FunctionPrice]]:
    """Return the price of a request without its tokens, and of a token."""
    functions = {price.key: price for price in (*short, *long)}
    parts = without_tokens(
        {price.key: price.bytecodes for price in short}, {price.key: price.bytecodes for price in long}, lengths
    )
    request, token = (
        sorted((functions[key].at(value) for key, value in part.items() if value), key=lambda price: -price.bytecodes)
        for part in parts
    )
    return request, token
