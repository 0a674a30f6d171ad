"""The seam between a routing decision and the wire."""

from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from protos.errors import PenstockError
from protos.types import Finish, Submit, TokenLogprobs

#: (sequence index, new token ids, one logprob entry per token if asked for, the sequence's end if it is over).
#: It has tokens or a finish, never both. A plain tuple: one is made per token.
Event = tuple[int, Sequence[int], list[TokenLogprobs] | None, Finish | None]


class TokenStream(Protocol):
    """The answer to one request, read by one task.

    `cached_tokens` of the prompt were in the replica's KV cache; known from the first tokens on.
    """

    cached_tokens: int

    def receive(self) -> Coroutine[Any, Any, list[Event]]:
        """Everything that came since the last call, at least one event. Raises PenstockError when it broke."""
        ...

    @property
    def failed(self) -> bool:
        """Whether `receive` raises from now on."""
        ...

    def fail(self, error: PenstockError) -> None:
        """End the stream from this side: the engine is told to stop, and `receive` raises `error`."""
        ...

    def close(self) -> None:
        """The stream's one ending: cancels upstream what has not finished. Idempotent, never waits."""
        ...


class Relay(Protocol):
    """An upstream's good answer in the API's own bytes, read by one task; only as fast as it is read does it come.

    `streamed`: it is a stream of server-sent events, and each part is a number of whole ones, the end mark included;
    else it is one JSON body of `length` bytes, or None where that is not known before its end. `seen` tokens, about,
    have come so far, and `reasoning_tokens` is what the upstream says at the end of its thoughts.
    """

    streamed: bool
    length: int | None
    seen: int
    reasoning_tokens: int

    async def read(self) -> bytes:
        """The next part; empty after the last one, and once the leg has been closed. Raises PenstockError."""
        ...


class Sink(Protocol):
    """Where tokens go."""

    def put(self, event: Event) -> None:
        """Take one event; called once per token and sequence, so it must be quick."""
        ...


class Receiver(Protocol):
    """Told of everything that comes of one submit, at once and by whoever reads the wire: nothing here waits or raises.

    Tokens go to `sink` directly. Indices of sequences count from `sequence` on.
    """

    @property
    def sequence(self) -> int:
        """The index of the submit's first sequence."""
        ...

    @property
    def sink(self) -> Sink:
        """Where the tokens go, unless the stream's own `sink` is changed."""
        ...

    def started(self, cached_tokens: int) -> None:
        """The prompt has been computed, and so much of it was cached. Called once at most; the first tokens follow."""
        ...

    def relayed(self, relay: Relay) -> None:
        """The answer comes as bytes: no tokens follow, but the finishes do, when its end has been read."""
        ...

    def finished(self, index: int, finish: Finish) -> None:
        """A sequence has ended, after its last tokens."""
        ...

    def lost(self, error: PenstockError) -> None:
        """The replica is gone or gives the request up: nothing more comes, and the receiver closes the stream."""
        ...


class Leg(TokenStream, Protocol):
    """A submit under way: read by whoever sent it, or, if it has a receiver, held by that."""

    sink: Sink
    receiver: Receiver | None

    @property
    def closed(self) -> bool:
        """Whether nothing more can come, nor be cancelled."""
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
        """Send a request, and tell `receiver` of what comes; None: the caller reads it.

        It is expected to fill `kv_tokens` of the KV cache and to have `compute_tokens` of its prompt computed; None:
        all that it may ask for, and the whole prompt. Raises ReplicaUnavailable when the replica cannot be reached now.
        """
        ...
