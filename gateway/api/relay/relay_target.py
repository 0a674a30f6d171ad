"""The target of a relayed answer: the client's exchange, or a translation to another API."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from gateway.api.server.error_form import ErrorForm
from observability.record import RequestRecord
from protos.errors import PenstockError


class RelayTarget(Protocol):
    """The part of an exchange (gateway/api/server/http_exchange.py) that relaying needs."""

    @property
    def record(self) -> RequestRecord:
        """The request's record."""
        ...

    @property
    def errors(self) -> ErrorForm:
        """The form of errors."""
        ...

    def note_failure(self, error: PenstockError) -> None:
        """Record the error that the request ended with."""
        ...

    def unwatch(self) -> None:
        """Stop watching the client."""
        ...

    async def start_stream(self) -> None:
        """Begin an event stream."""
        ...

    async def start_body(self, length: int | None) -> None:
        """Begin a JSON body that comes in parts."""
        ...

    def write(self, body: bytes) -> Awaitable[None]:
        """Write the next part."""
        ...

    async def end(self, body: bytes = b"") -> None:
        """Write the last part."""
        ...

    async def respond(self, status: int, body: bytes, *, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        """Write the whole answer."""
        ...
