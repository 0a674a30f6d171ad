"""Where an upstream's answer goes: to its client as it is, or to what says it in another API's words."""

from collections.abc import Awaitable
from typing import Protocol

from gateway.api.server.error_form import ErrorForm
from observability.record import RequestRecord
from protos.errors import PenstockError


class RelayTarget(Protocol):
    """As much of an exchange (gateway/api/server/http_exchange.py) as an answer needs that is passed on."""

    @property
    def record(self) -> RequestRecord:
        """What is told of the request."""
        ...

    @property
    def errors(self) -> ErrorForm:
        """How errors are told."""
        ...

    def note_failure(self, error: PenstockError) -> None:
        """What the request has ended with."""
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
        """The next part."""
        ...

    async def end(self, body: bytes = b"") -> None:
        """The last part."""
        ...

    async def respond(self, status: int, body: bytes, *, headers: list[tuple[bytes, bytes]] | None = None) -> None:
        """All of it."""
        ...
