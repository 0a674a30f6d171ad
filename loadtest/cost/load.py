"""The load of a scenario: the same requests in the same order, one lap after the other."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from loadtest.cost.cost_client import CostClient
from loadtest.cost.cost_stack import CostStack
from loadtest.cost.scenarios import TRACED_EVERY, WHOLE, Scenario
from loadtest.load.processes import BenchError

#: Windows begin and end at this part of a second of the monotonic clock: what a worker does at whole seconds or at
#: quarters of them is done as often in each window of as many seconds.
_PHASE = 0.6
_SETTLEMENT_SECONDS = 0.003


class Load:
    """Connections to a gateway, and a scenario's requests. `tokens` are the lengths of the answers so far, by model."""

    def __init__(self, scenario: Scenario, client: CostClient) -> None:
        self.scenario = scenario
        self.client = client
        self.tokens: dict[str, int] = {}
        self._bodies = {model: [scenario.body(model)] * scenario.clients for model in scenario.models}

    def lap(self, model: str) -> int:
        """Make each connection send one request, and wait for the answers; return their events. Raises BenchError.

        Where there are limits, wait for the settlement too: else it is chance whether it goes to the store with the
        next reservation.
        """
        events = 0
        for answer in self.client.ask(self._bodies[model]):
            events += answer.events
            if self.tokens.setdefault(model, answer.output_tokens or 0) != answer.output_tokens:
                raise BenchError(f"{self.scenario.name}: answers that should be the same have different lengths")
        if self.scenario.setup.limited:
            time.sleep(_SETTLEMENT_SECONDS)
        return events

    def ask_one(self) -> None:
        """Send one request with a quick answer and wait for that. Raises BenchError."""
        self.client.ask([self.scenario.body(WHOLE)])

    def warm_up(self, laps: int) -> None:
        """Send so many laps of each model."""
        for _ in range(laps):
            for model in self.scenario.models:
                self.lap(model)

    @property
    def lengths(self) -> tuple[int, int]:
        """Tokens of the short and of the long answers."""
        short, long = self.scenario.models
        return self.tokens[short], self.tokens[long]


@contextmanager
def load(stack: CostStack, scenario: Scenario) -> Iterator[Load]:
    """Connect during the block. Raises BenchError."""
    traced = TRACED_EVERY if scenario.setup.telemetry else None
    client = CostClient(stack.port, stack.key, scenario.clients, traced_every=traced)
    try:
        yield Load(scenario, client)
    finally:
        client.close()


def wait_for_phase(seconds: float = 0.0, since: float | None = None) -> float:
    """Wait until a window may begin, or so many `seconds` since it began; return the time."""
    now = time.monotonic()
    due = now - now % 1 + _PHASE if since is None else since + seconds
    while due < now:
        due += 1
    time.sleep(due - now)
    return due
