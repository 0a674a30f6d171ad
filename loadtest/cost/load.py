"""The load of a scenario: the same requests in the same order, one lap after the other."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from loadtest.cost.cost_client import CostClient
from loadtest.cost.cost_stack import CostStack
from loadtest.cost.scenarios import TRACED_EVERY, WHOLE, Scenario
from loadtest.load.http1 import ResponseReader
from loadtest.load.processes import BenchError

#: Windows begin and end at this part of a second of the monotonic clock: what a worker does at whole seconds or at
#: quarters of them is done as often in each window of as many seconds.
_PHASE = 0.6
#: Seconds between two looks at whether processes wait, and the looks at which all must.
_LOOK_SECONDS = 0.0007
_LOOKS = 4
_IDLE_SECONDS = 1.0
#: The parts of a stream's events after which all streams have begun, and none has ended.
_BEGUN = 0.3
_ENDING = 0.8
#: Events of a stream that have no token: the role, the finish reason and the usage.
_FRAMING_EVENTS = 3


class Load:
    """Connections to a gateway, and a scenario's requests. `tokens` are the lengths of the answers so far, by model."""

    def __init__(self, scenario: Scenario, client: CostClient, processes: Sequence[int]) -> None:
        """`processes` are those of the gateway."""
        self.scenario = scenario
        self._processes = processes
        self.client = client
        self.tokens: dict[str, int] = {}
        self._events: dict[str, int] = {}
        self._bodies = {model: [scenario.body(model)] * scenario.clients for model in scenario.models}

    def steady_lap(self, model: str, at_edge: Callable[[], None]) -> tuple[int, float]:
        """Like `lap`, of streams; return their events, and the tokens between the two calls of `at_edge`.

        It is called when all streams have begun, and before the first one ends: between the two each step of the engine
        has a token of each stream. There must have been such answers before.
        """
        edges: list[int] = []
        whole = self._events[model]

        def came(answers: Sequence[ResponseReader]) -> None:
            events = [answer.events for answer in answers]
            if (not edges and min(events) >= _BEGUN * whole) or (len(edges) == 1 and max(events) >= _ENDING * whole):
                edges.append(sum(events))
                at_edge()

        events = self.lap(model, came)
        if len(edges) < 2:
            raise BenchError(f"{self.scenario.name}: the streams are too short to count their tokens")
        # An event has one token, or several where filters have held text.
        held = self.tokens[model] / (whole - _FRAMING_EVENTS) if self.scenario.setup.filters else 1.0
        return events, (edges[1] - edges[0]) * held

    def lap(self, model: str, came: Callable[[Sequence[ResponseReader]], None] = lambda _: None) -> int:
        """Make each connection send one request, and wait for the answers; return their events. Raises BenchError.

        Where there are limits, wait for the settlement too: else it is chance whether it goes to the store with the
        next reservation.
        """
        events = 0
        for answer in self.client.ask(self._bodies[model], came):
            events += answer.events
            self._events[model] = max(answer.events, self._events.get(model, 0))
            if self.tokens.setdefault(model, answer.output_tokens or 0) != answer.output_tokens:
                raise BenchError(f"{self.scenario.name}: answers that should be the same have different lengths")
        if self.scenario.setup.limited:
            wait_until_idle(self._processes)
        return events

    def ask_one(self) -> None:
        """Send one request with a quick answer and wait for that. Raises BenchError."""
        self.client.ask([self.scenario.body(WHOLE)])

    def warm_up(self, model: str, laps: int) -> None:
        """Send so many laps."""
        for _ in range(laps):
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
        yield Load(scenario, client, stack.processes)
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


def wait_until_idle(processes: Sequence[int]) -> None:
    """Wait until none of these processes has anything to do, at most a second."""
    idle, deadline = 0, time.monotonic() + _IDLE_SECONDS
    while idle < _LOOKS and time.monotonic() < deadline:
        # A process that waits for a core is not idle.
        idle = idle + 1 if all(_waits(process) for process in processes) else 0
        time.sleep(_LOOK_SECONDS)


def _waits(process: int) -> bool:
    """Return whether a process's main thread waits for something, by its state in /proc (proc(5))."""
    state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    return state not in ("R", "D")
