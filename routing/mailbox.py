"""Where the tokens of one request wait for its reader: filled by the session's demultiplexer, bounded."""

import asyncio
from collections.abc import Callable

from protos.errors import PenstockError, SlowClient
from routing.transport import Event

#: Tokens and logprob entries that may wait for a reader before it counts as too slow, and how many more for each
#: sequence beyond the first, all of which gain a token a step.
MAX_WAITING = 2048
MAX_WAITING_PER_SEQUENCE = 128


class Mailbox:
    """The `TokenStream` of a multiplexed session.

    Past the bound the stream is failed upstream with SlowClient and what was waiting is dropped, so a reader that
    does not read costs the worker a bounded amount of memory. What one step can bring, tokens and a finish for each
    sequence, is never too much however long it is: whole answers may come at once.
    """

    __slots__ = (
        "_detach",
        "_error",
        "_events",
        "_limit",
        "_loop",
        "_open_sequences",
        "_waiter",
        "_waiting",
        "cached_tokens",
        "first_stream",
        "on_start",
        "sequences",
    )

    def __init__(
        self,
        first_stream: int,
        sequences: int,
        detach: "Callable[[Mailbox, bool], None]",
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`detach(mailbox, cancel)` takes the mailbox off its session, cancelling upstream if asked; called once."""
        self.first_stream = first_stream
        self.sequences = sequences
        self._open_sequences = sequences
        self._detach: Callable[[Mailbox, bool], None] | None = detach
        self._events: list[Event] = []
        self._waiting = 0
        self._limit = MAX_WAITING + MAX_WAITING_PER_SEQUENCE * (sequences - 1)
        self._error: PenstockError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._loop = loop
        self.cached_tokens = 0
        self.on_start: Callable[[], None] | None = None

    @property
    def failed(self) -> bool:
        """Whether the stream has been ended with an error."""
        return self._error is not None

    def start(self, cached_tokens: int) -> None:
        """The prompt has been computed. Called by the session only, perhaps more than once."""
        self.cached_tokens = cached_tokens
        on_start, self.on_start = self.on_start, None
        if on_start is not None:
            on_start()

    def put(self, event: Event) -> None:
        """Add one event and wake the reader. Called by the session only."""
        events = self._events
        if event[3] is not None:
            self._open_sequences -= 1
        if len(events) >= 2 * self.sequences:
            # More than one step waits, so the reader is behind: only then is there anything to weigh.
            self._waiting += _weight(event)
            if self._waiting > self._limit:
                self.fail(SlowClient("The stream was not read fast enough and has been cancelled."))
                return
        elif not events:
            self._waiting = 0
        events.append(event)
        if self._waiter is not None:
            self._wake()

    def fail(self, error: PenstockError) -> None:
        """End the stream; the first error wins, and nothing that waited before it is delivered after."""
        if self._error is None:
            self._error = error
            self._events = []
            self.close()
            if self._waiter is not None:
                self._wake()

    def close(self) -> None:
        """Take the mailbox off its session, cancelling upstream if any sequence is still open."""
        detach, self._detach = self._detach, None
        if detach is not None:
            detach(self, self._open_sequences > 0)

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
