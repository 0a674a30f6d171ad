"""The seam between a routing decision and the wire."""

from collections.abc import Callable, Sequence
from typing import Protocol

from protos.errors import PenstockError
from protos.types import Finish, Submit, TokenLogprobs

#: (sequence index, new token ids, one logprob entry per token if asked for, the sequence's end if it is over).
#: It has tokens or a finish, never both. A plain tuple: one is made per token.
Event = tuple[int, Sequence[int], list[TokenLogprobs] | None, Finish | None]


class TokenStream(Protocol):
    """The answer to one submit, read by one task.

    `cached_tokens` of the prompt were in the replica's KV cache; known from the first tokens on. `on_start` is called
    once, when the replica says that the prompt has been computed: the first tokens come then, or later where the
    engine gathers them.
    """

    cached_tokens: int
    on_start: Callable[[], None] | None

    async def receive(self) -> list[Event]:
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


class Transport(Protocol):
    """Carries submits to one replica."""

    def open(self, submit: Submit, kv_tokens: int | None = None) -> TokenStream:
        """Send a request, which is expected to fill so much KV cache; None: all that it may ask for.

        Raises ReplicaUnavailable when the replica cannot be reached now.
        """
        ...
