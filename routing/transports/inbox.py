"""Where the events of one answer wait for their reader: bounded, and with all its tokens remembered."""

import asyncio
from collections.abc import Callable

from protos.errors import PenstockError, SlowClient
from routing.contracts.transport import Event

#: Tokens and logprob entries that may wait for a reader before it counts as too slow, and how many more for each
#: sequence beyond the first, all of which gain a token a step.
MAX_WAITING = 2048
MAX_WAITING_PER_SEQUENCE = 128


class Inbox:
    """Filled from the wire, read by one task. `tokens` are all that came so far, by sequence.

    Past the bound `overflow` is told, which must fail the inbox; so a reader that does not read costs the worker a
    bounded amount of memory. What one step can bring, tokens and a finish for each sequence, is never too much however
    long it is: whole answers may come at once.
    """

    __slots__ = ("_error", "_events", "_limit", "_loop", "_overflow", "_two_steps", "_waiter", "_waiting", "tokens")

    def __init__(
        self, sequences: int, overflow: Callable[[PenstockError], None], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.tokens: list[list[int]] = [[] for _ in range(sequences)]
        self._events: list[Event] = []
        self._two_steps = 2 * sequences
        self._waiting = 0
        self._limit = MAX_WAITING + MAX_WAITING_PER_SEQUENCE * (sequences - 1)
        self._overflow: Callable[[PenstockError], None] | None = overflow
        self._error: PenstockError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._loop = loop

    @property
    def failed(self) -> bool:
        """Whether it has been ended with an error."""
        return self._error is not None

    def check(self) -> None:
        """Raises the error that it has been ended with, if it has."""
        if self._error is not None:
            raise self._error

    def put(self, event: Event) -> None:
        """Add one event and wake the reader: called once per token."""
        events = self._events
        self.tokens[event[0]] += event[1]
        if len(events) >= self._two_steps:
            # More than one step waits, so the reader is behind: only then is there anything to weigh.
            self._waiting += _weight(event)
            if self._waiting > self._limit:
                if self._overflow is not None:
                    self._overflow(SlowClient("The stream was not read fast enough and has been cancelled."))
                return
        elif not events:
            self._waiting = 0
        events.append(event)
        if self._waiter is not None:
            self._wake()

    def fail(self, error: PenstockError) -> None:
        """End it; the first error wins, and nothing that waited before it is delivered after."""
        if self._error is None:
            self._error = error
            self._events = []
            if self._waiter is not None:
                self._wake()

    def close(self) -> None:
        """Nothing more comes: let go of whoever fills it."""
        self._overflow = None

    async def receive(self) -> list[Event]:
        """All events since the last call; waits for at least one."""
        while True:
            if self._events:
                events, self._events = self._events, []
                return events
            if self._error is not None:
                raise self._error
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


def _weight(event: Event) -> int:
    logprobs = event[2]
    if logprobs is None:
        return len(event[1])
    return sum(2 + len(entry.top) for entry in logprobs)
