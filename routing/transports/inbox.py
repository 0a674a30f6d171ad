"""The inbox of one answer: a bounded queue of its events, and all its tokens so far."""

import asyncio
from collections.abc import Callable

from protos.errors import PenstockError, SlowClient
from protos.types import Finish
from routing.contracts.transport import Event

#: Tokens and logprob entries that may wait before the reader counts as too slow, and how many more for each sequence
#: beyond the first, since all of them gain a token per step.
MAX_WAITING = 2048
MAX_WAITING_PER_SEQUENCE = 128


class Inbox:
    """Filled by the wire's reader, read by one task. `tokens` are all so far, by sequence.

    Past the bound `overflow` is called, which must fail the inbox, so that a stalled reader costs a bounded amount of
    memory. The events of one step, tokens and a finish for each sequence, never count as too many: whole answers may
    come at once.
    """

    __slots__ = ("_error", "_events", "_loop", "_overflow", "_two_steps", "_waiter", "_waiting", "tokens")

    def __init__(
        self, sequences: int, overflow: Callable[[PenstockError], None], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.tokens: list[list[int]] = [[]] if sequences == 1 else [[] for _ in range(sequences)]
        self._events: list[Event] = []
        self._two_steps = 2 * sequences
        self._waiting = 0
        self._overflow: Callable[[PenstockError], None] | None = overflow
        self._error: PenstockError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._loop = loop

    @property
    def failed(self) -> bool:
        return self._error is not None

    def check(self) -> None:
        """Raise the error that it was failed with, if any."""
        if self._error is not None:
            raise self._error

    def put(self, event: Event) -> None:
        """Add one event and wake the reader: called once per token."""
        self.tokens[event[0]].extend(event[1])
        events = self._events
        if events and len(events) >= self._two_steps:
            # More than one step waits, so the reader is behind: only then count.
            self._waiting += _weight(event)
            if self._waiting > MAX_WAITING + MAX_WAITING_PER_SEQUENCE * (len(self.tokens) - 1):
                if self._overflow is not None:
                    self._overflow(SlowClient("The stream was not read fast enough and has been cancelled."))
                return
        events.append(event)
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            try:  # noqa: SIM105 - `suppress` takes longer than all of this
                waiter.set_result(None)
            except asyncio.InvalidStateError:
                pass  # its reader was cancelled

    def end(self, index: int, finish: Finish, *, join: bool = False) -> None:
        """Add a sequence's end and wake the reader; `join`: as a part of its last event, if that is unread."""
        events = self._events
        if join and events and events[-1][0] == index:
            events[-1] = (index, events[-1][1], events[-1][2], finish)
            return
        events.append((index, (), None, finish))
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def is_unread(self, index: int) -> bool:
        """Whether none of a sequence's tokens has been received."""
        return sum(len(event[1]) for event in self._events if event[0] == index) == len(self.tokens[index])

    def forget(self, index: int) -> None:
        """Drop a sequence's tokens, received or not: it begins again."""
        self._events = [event for event in self._events if event[0] != index]
        self._waiting = sum(map(_weight, self._events))
        self.tokens[index] = []

    def fail(self, error: PenstockError) -> None:
        """End it with an error; the first one wins, and waiting events are dropped."""
        if self._error is None:
            self._error = error
            self._events = []
            waiter, self._waiter = self._waiter, None
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def close(self) -> None:
        """Release the references to its producer: nothing more comes."""
        self._overflow = None

    async def receive(self) -> list[Event]:
        """Return all events since the last call; wait for at least one."""
        while not (events := self._events):
            if self._error is not None:
                raise self._error
            # A reader that is cancelled leaves its future behind, done.
            self._waiter = waiter = self._loop.create_future()
            await waiter
        self._events = []
        self._waiting = 0
        return events


def _weight(event: Event) -> int:
    logprobs = event[2]
    if logprobs is None:
        return len(event[1])
    return sum(2 + len(entry.top) for entry in logprobs)
