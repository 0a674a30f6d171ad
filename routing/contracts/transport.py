"""The Transport protocol: carries submits to a replica and delivers the events of the answer."""

from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from protos.errors import PenstockError
from protos.token_counts import TokenCounts
from protos.types import Finish, Submit, TokenLogprobs

#: (sequence index, new token ids, one logprob entry per token if asked for, the sequence's end if it is over).
#: It has tokens or a finish, never both. A plain tuple, because one is made per token.
Event = tuple[int, Sequence[int], list[TokenLogprobs] | None, Finish | None]


class TokenStream(Protocol):
    """The events of one request's answer, read by one task.

    `cached_tokens` of the prompt were in the replica's KV cache; known once the first tokens have come.
    """

    cached_tokens: int

    def receive(self) -> Coroutine[Any, Any, list[Event]]:
        """Return all events since the last call, at least one. Raises PenstockError when the stream failed."""
        ...

    @property
    def failed(self) -> bool:
        """Whether the stream has failed, so that `receive` raises."""
        ...

    def fail(self, error: PenstockError) -> None:
        """Fail the stream: cancel at the engine and let `receive` raise `error`."""
        ...

    def close(self) -> None:
        """End the stream: cancel upstream what has not finished. Idempotent, never waits."""
        ...


class Relay(Protocol):
    """An upstream's successful answer as raw bytes, read by one task with backpressure.

    `streamed`: it is a stream of server-sent events and each part holds whole events, the end mark included; else it is
    one JSON body of `length` bytes, None where that is unknown before its end. `seen` approximates the tokens so far;
    `counts` are the upstream's own, as far as it has told them.
    """

    streamed: bool
    length: int | None

    @property
    def seen(self) -> int: ...

    @property
    def counts(self) -> TokenCounts | None: ...

    async def read(self) -> bytes:
        """Return the next part; empty after the last one and once the leg has been closed. Raises PenstockError."""
        ...


class Sink(Protocol):
    """Takes the token events of an answer."""

    def put(self, event: Event) -> None:
        """Take one event; called once per token and sequence, so it must be fast."""
        ...


class Receiver(Protocol):
    """Callbacks for the events of one submit, called synchronously by the wire's reader: they neither wait nor raise.

    Tokens go to `sink` directly. Sequence indices count from `sequence`.
    """

    @property
    def sequence(self) -> int:
        """Index of the submit's first sequence."""
        ...

    @property
    def sink(self) -> Sink:
        """Sink of the tokens, unless the stream's own `sink` is changed."""
        ...

    @property
    def most_tokens(self) -> int:
        """KV tokens that each of its sequences may take: the prompt's, and as many as its answer may have."""
        ...

    def started(self, cached_tokens: int) -> None:
        """The prompt has been computed, `cached_tokens` of it from the cache. At most once, before the tokens."""
        ...

    def relayed(self, relay: Relay) -> None:
        """The answer is relayed as bytes: no tokens follow; the finishes do, once its end has been read."""
        ...

    def finished(self, index: int, finish: Finish) -> None:
        """A sequence has ended; all its tokens have been delivered."""
        ...

    def lost(self, error: PenstockError) -> None:
        """The replica is gone or has dropped the request: nothing more comes, and the receiver closes the stream."""
        ...


class Leg(TokenStream, Protocol):
    """A submit in flight: read by its sender, or owned by its receiver if it has one."""

    sink: Sink
    receiver: Receiver | None

    @property
    def closed(self) -> bool:
        """Whether nothing more can come or be cancelled."""
        ...


class Transport(Protocol):
    """Carries submits to one replica."""

    def open(
        self,
        submit: Submit,
        kv_tokens: int | None = None,
        compute_tokens: int | None = None,
        receiver: Receiver | None = None,
    ) -> Leg:
        """Send a request and deliver its events to `receiver`; None: the caller reads them.

        It is expected to fill `kv_tokens` of the KV cache (None: all it may ask for) and to need `compute_tokens` of
        its prompt computed (None: all). Raises ReplicaUnavailable when the replica cannot be reached now.
        """
        ...
