"""One submit's end on a session: tells its receiver what comes, or is itself the stream that a reader reads."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from protos.errors import PenstockError
from protos.types import Finish
from routing.contracts.transport import Event, Receiver, Relay, Sink
from routing.transports.inbox import Inbox


class Mailbox:
    """The `Leg` of a multiplexed session; without a receiver, its `TokenStream`.

    The session puts tokens into `sink`, numbered from `base` on: a stream's index is its id less that.
    """

    __slots__ = (
        "_detach",
        "_inbox",
        "_open_sequences",
        "_started",
        "base",
        "cached_tokens",
        "first_stream",
        "receiver",
        "sequences",
        "sink",
    )

    def __init__(
        self,
        first_stream: int,
        sequences: int,
        detach: "Callable[[Mailbox, bool], None]",
        loop: asyncio.AbstractEventLoop,
        receiver: Receiver | None = None,
    ) -> None:
        """`detach(mailbox, cancel)` takes the mailbox off its session, cancelling upstream if asked; called once."""
        self.first_stream = first_stream
        self.sequences = sequences
        self.cached_tokens = 0
        self.receiver = receiver
        self._open_sequences = sequences
        self._detach: Callable[[Mailbox, bool], None] | None = detach
        self._started = False
        self._inbox: Inbox | None = None
        self.sink: Sink
        if receiver is None:
            self.base = first_stream
            self._inbox = self.sink = Inbox(sequences, self.fail, loop)
        else:
            self.base = first_stream - receiver.sequence
            self.sink = receiver.sink

    @property
    def closed(self) -> bool:
        """Whether nothing more can come, nor be cancelled."""
        return self._detach is None

    @property
    def failed(self) -> bool:
        """Whether the stream has been ended with an error."""
        return self._inbox is not None and self._inbox.failed

    def start(self, cached_tokens: int) -> None:
        """The prompt has been computed. Called by the session only, perhaps more than once."""
        self.cached_tokens = cached_tokens
        if not self._started:
            self._started = True
            if self.receiver is not None:
                self.receiver.started(cached_tokens)

    def relay(self, relay: Relay) -> None:
        """The answer comes as bytes. Called by the transport only, once, and only of a mailbox with a receiver."""
        if self.receiver is not None:
            self.receiver.relayed(relay)

    def finish(self, index: int, finish: Finish) -> None:
        """A sequence has ended. Called by the session only."""
        self._open_sequences -= 1
        if self.receiver is not None:
            self.receiver.finished(index, finish)
        elif self._inbox is not None:
            self._inbox.put((index, (), None, finish))

    def fail(self, error: PenstockError) -> None:
        """Take the request away from its replica: a receiver may go on elsewhere, a reader is told the error."""
        if self._inbox is not None:
            self._inbox.fail(error)
            self.close()
        elif self.receiver is not None and self._open_sequences:
            self.receiver.lost(error)

    def cut(self, error: PenstockError) -> None:
        """The session is over. Called by the session only."""
        self._detach = None
        self.fail(error)

    def close(self) -> None:
        """Take the mailbox off its session, cancelling upstream if any sequence is still open."""
        detach, self._detach = self._detach, None
        if detach is not None:
            detach(self, self._open_sequences > 0)
        if self._inbox is not None:
            self._inbox.close()
        self.receiver = None

    def receive(self) -> Coroutine[Any, Any, list[Event]]:
        """All events since the last call; waits for at least one. Only without a receiver."""
        if self._inbox is None:
            raise RuntimeError("what comes goes to a receiver")
        return self._inbox.receive()
