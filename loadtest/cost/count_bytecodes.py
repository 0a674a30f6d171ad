"""Counts the bytecodes of scenarios in a worker that is traced."""

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from loadtest.cost.bytecodes import Baseline, FunctionPrice, Laps, baseline, prices
from loadtest.cost.cost_stack import CostStack, cost_stack
from loadtest.cost.counter_server import CounterClient, connected
from loadtest.cost.load import Load, load, wait_for_phase
from loadtest.cost.price import REQUEST, TOKEN, TOKENS, Price, Prices, summed
from loadtest.cost.scenarios import LONG, WHOLE, Scenario
from loadtest.load.processes import BenchError

#: Seconds of the count without load, and its requests.
_BASE_SECONDS = 3.0
_BASE_REQUESTS = 3
#: Laps before the count and of it: requests one by one, and streams together.
_WARM_UP, _LAPS = 300, 250
_STREAM_WARM_UP, _STREAM_LAPS = 3, 6
#: A worker learns the lengths of 20 answers a second of a tenant, and of 50 at once after a rest. On a busy gateway
#: that is one answer in a hundred, and no part of the price; in laps longer than this it is most of them.
_LONGEST_LAP_SECONDS = 0.024
_FEWEST_LAPS = 2
_BUSY = "the machine is too busy to count"


_ATTEMPTS = 4
_Counted = TypeVar("_Counted")


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
                if scenario.stream:
                    with_tokens, token = _retried(partial(_stream_window, counter, requests, base, stream_laps))
                    tokens = requests.tokens[LONG]
                    request = _without_tokens(with_tokens, token, tokens)
                    found[f"{scenario.name}{REQUEST}"] = Price(summed(request), {TOKENS: tokens})
                    found[f"{scenario.name}{TOKEN}"] = Price(summed(token))
                else:
                    found[scenario.name] = Price(summed(_retried(partial(_window, counter, requests, base))))
    return found


@contextlib.contextmanager
def _counted_stack(scenario: Scenario) -> Iterator[tuple[CostStack, CounterClient]]:
    def command(folder: Path) -> list[str]:
        return [sys.executable, "-P", "-m", "loadtest.cost.counted_serve", str(folder / "counter.sock")]

    with cost_stack(scenario.setup, command=command) as stack, connected(str(stack.folder / "counter.sock")) as counter:
        yield stack, counter


def _baseline(counter: CounterClient, requests: Load) -> Baseline:
    """Count what the worker does with very few requests."""
    requests.ask_one()
    began = wait_for_phase()
    counter.begin()
    for _ in range(_BASE_REQUESTS):
        requests.ask_one()
        time.sleep(0.8 * _BASE_SECONDS / _BASE_REQUESTS)
    wait_for_phase(_BASE_SECONDS, began)
    return baseline(counter.end(), _BASE_SECONDS, _BASE_REQUESTS)


def _retried(count: Callable[[], _Counted]) -> _Counted:
    """Count again while the machine is too busy, a few times. Raises TooBusy."""
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(TooBusy):
            return count()
    return count()


def _window(counter: CounterClient, requests: Load, base: Baseline) -> list[FunctionPrice]:
    """Count requests one by one."""
    settle = requests.scenario.setup.settle_seconds
    requests.warm_up(WHOLE, _WARM_UP)
    time.sleep(settle)
    began = wait_for_phase()
    counter.begin()
    for _ in range(_LAPS):
        requests.lap(WHOLE)
        counter.lap()
    took = time.monotonic() - began
    if took > _LAPS * _LONGEST_LAP_SECONDS:
        raise TooBusy(f"{requests.scenario.name}: a request took {1e3 * took / _LAPS:.0f} ms: {_BUSY}")
    seconds = float(math.ceil(took + settle))
    wait_for_phase(seconds, began)
    return prices(counter.end(), base, Laps(seconds, 1, list(range(1, _LAPS))))[0]


def _stream_window(
    counter: CounterClient, requests: Load, base: Baseline, laps: int
) -> tuple[list[FunctionPrice], list[FunctionPrice]]:
    """Count streams, some at a time."""
    settle = requests.scenario.setup.settle_seconds
    requests.warm_up(LONG, _STREAM_WARM_UP)
    time.sleep(settle)
    began = wait_for_phase()
    counter.begin()
    events, tokens = [], []
    for _ in range(laps):
        of_lap, steady = requests.steady_lap(LONG, counter.lap)
        counter.lap()
        events.append(of_lap)
        tokens.append(steady)
    seconds = float(math.ceil(time.monotonic() - began + settle))
    wait_for_phase(seconds, began)
    undisturbed = undisturbed_laps(events)
    if len(undisturbed) < _FEWEST_LAPS:
        raise TooBusy(f"{requests.scenario.name}: tokens of several steps came together: {_BUSY}")
    return prices(counter.end(), base, Laps(seconds, requests.scenario.clients, undisturbed, tokens))


def undisturbed_laps(events: Sequence[int]) -> list[int]:
    """Return the numbers of the laps in which all events came that ever came.

    There are fewer where a worker got the tokens of several steps of the engine at once. The first lap is none: what
    the one before has left to do is not in it.
    """
    return [number for number, count in enumerate(events) if number and count == max(events)]


def _without_tokens(request: list[FunctionPrice], token: list[FunctionPrice], tokens: int) -> list[FunctionPrice]:
    """Return the price of a request without those of its tokens."""
    of_token = {price.key: price.bytecodes for price in token}
    left = [price.at(price.bytecodes - tokens * of_token.get(price.key, 0.0)) for price in request]
    return sorted(left, key=lambda price: -price.bytecodes)
