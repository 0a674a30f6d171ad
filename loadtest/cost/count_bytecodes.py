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
from loadtest.load.processes import BenchError

#: Seconds of the count without load, and its requests.
_BASE_SECONDS = 3.0
_BASE_REQUESTS = 12
#: Laps before the count and of it: requests one by one, and streams together.
_WARM_UP, _LAPS = 300, 200
_STREAM_WARM_UP, _STREAM_LAPS = 3, 6
#: Of laps that are longer than this nearly all have what a worker does for 20 requests a second of a tenant: it learns
#: the answer's length. On a busy gateway that is one request in a hundred, and no part of the price.
_LONGEST_LAP_SECONDS = 0.04
_FEWEST_LAPS = 2
_BUSY = "the machine is too busy to count"


class TooBusy(BenchError):
    """The machine does too much besides: the counts would be of something else."""


def count_bytecodes(
    scenarios: Sequence[Scenario], at: Callable[[str], None] = lambda _: None, *, stream_laps: int = _STREAM_LAPS
) -> Prices:
    """Count the bytecodes of scenarios with one setup. `at` gets the name of what is under way. Raises BenchError."""
    found: Prices = {}
    with _counted_stack(scenarios[0]) as (stack, counter):
        base: Baseline | None = None
        for scenario in scenarios:
            at(f"{scenario.name}: bytecodes")
            with load(stack, scenario) as requests:
                base = base or _baseline(counter, requests)
                window = _window(counter, requests, base, stream_laps)
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


def _window(counter: CounterClient, requests: Load, base: Baseline, stream_laps: int) -> list[list[FunctionPrice]]:
    """Count requests; those with long and short answers take turns, as a worker learns from all of them."""
    scenario = requests.scenario
    requests.warm_up(_STREAM_WARM_UP if scenario.stream else _WARM_UP)
    time.sleep(scenario.setup.settle_seconds)
    began = wait_for_phase()
    counter.begin()
    events: list[list[int]] = [[] for _ in scenario.models]
    for _ in range(stream_laps if scenario.stream else _LAPS):
        for model, of_model in zip(scenario.models, events, strict=True):
            of_model.append(requests.lap(model))
            counter.lap()
    took = time.monotonic() - began
    if not scenario.stream and took > _LAPS * _LONGEST_LAP_SECONDS:
        raise TooBusy(f"{scenario.name}: a request took {1e3 * took / _LAPS:.0f} ms: {_BUSY}")
    seconds = float(math.ceil(took + scenario.setup.settle_seconds))
    wait_for_phase(seconds, began)
    undisturbed = undisturbed_laps(events)
    if min(map(len, undisturbed)) < _FEWEST_LAPS:
        raise TooBusy(f"{scenario.name}: tokens of many steps came together: {_BUSY}")
    return prices(counter.end(), base, seconds=seconds, lap_requests=scenario.clients, undisturbed=undisturbed)


def undisturbed_laps(events: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the numbers of the laps, which are of the kinds in turn, in which all events came that ever came.

    `events` are by kind and lap. There are fewer where a worker got the tokens of several steps of the engine at once.
    The first lap of each kind is none: what the one before has left to do is not in it.
    """
    return [
        [number * len(events) + kind for number, count in enumerate(of_kind) if number and count == max(of_kind)]
        for kind, of_kind in enumerate(events)
    ]


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
