"""The mailbox of one submit: passes its events to a receiver, or queues them for a reader."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from protos.errors import PenstockError
from protos.types import Finish
from routing.contracts.transport import Event, Receiver, Relay, Sink
from routing.transports.inbox import Inbox


class Mailbox:
    """The `Leg` of a submit; without a receiver, its `TokenStream`.

    The session puts tokens into `sink`; a sequence's index is its stream id minus `base`.
    """

    cached_tokens = 0
    _started = False
    _inbox: Inbox | None = None

    def __init__(
        self,
        first_stream: int,
        sequences: int,
        detach: "Callable[[Mailbox, bool], None]",
        loop: asyncio.AbstractEventLoop,
        receiver: Receiver | None = None,
    ) -> None:
        """`detach(mailbox, cancel)` removes the mailbox from its session, with `cancel` also upstream; called once."""
        self.first_stream = first_stream
        self.sequences = self._open_sequences = sequences
        self.receiver = receiver
        self._detach: Callable[[Mailbox, bool], None] | None = detach
        if receiver is None:
            self.base = first_stream
            self.sink: Sink = Inbox(sequences, self.fail, loop)
            self._inbox = self.sink
        else:
            self.base = first_stream - receiver.sequence
            self.sink = receiver.sink

    @property
    def closed(self) -> bool:
        return self._detach is None

    @property
    def failed(self) -> bool:
        return self._inbox is not None and self._inbox.failed

    def start(self, cached_tokens: int) -> None:
        """Note that the prompt has been computed. Called by the session only, maybe more than once."""
        self.cached_tokens = cached_tokens
        if not self._started:
            self._started = True
            if self.receiver is not None:
                self.receiver.started(cached_tokens)

    def relay(self, relay: Relay) -> None:
        """Pass a relay on. Called by the transport only, once, and only on a mailbox with a receiver."""
        if self.receiver is not None:
            self.receiver.relayed(relay)

    def finish(self, index: int, finish: Finish) -> None:
        """End a sequence. Called by the session only."""
        self._open_sequences -= 1
        if self.receiver is not None:
            self.receiver.finished(index, finish)
        elif self._inbox is not None:
            self._inbox.end(index, finish)

    def fail(self, error: PenstockError) -> None:
        """Cancel the request at its replica: a receiver may go on elsewhere, a reader gets the error."""
        if self._inbox is not None:
            self._inbox.fail(error)
            self.close()
        elif self.receiver is not None and self._open_sequences:
            self.receiver.lost(error)

    def cut(self, error: PenstockError) -> None:
        """Fail without cancelling: the session has ended. Called by the session only."""
        self._detach = None
        self.fail(error)

    def close(self) -> None:
        """Remove the mailbox from its session and cancel upstream if any sequence is still open."""
        detach, self._detach = self._detach, None
        if detach is not None:
            detach(self, self._open_sequences > 0)
        if self._inbox is not None:
            self._inbox.close()
        self.receiver = None

    def receive(self) -> Coroutine[Any, Any, list[Event]]:
        """Return all events since the last call; wait for at least one. Only without a receiver."""
        if self._inbox is None:
            raise RuntimeError("what comes goes to a receiver")
        return self._inbox.receive()
