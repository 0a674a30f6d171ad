"""The reply to a batch's request, and the seam that sends such requests."""

from dataclasses import dataclass
from typing import Final, Protocol

from gateway.tenancy.tenants.caller import Caller
from observability.record import RequestRecord
from protos.errors import PenstockError

#: Paths that batches may use.
PATHS: Final = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses")
_NO_ROOM: Final = (429, 503)


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply. `retryable`: it allows another attempt, in `retry_after` seconds."""

    status: int
    request_id: str
    body: bytes
    record: RequestRecord
    retryable: bool
    retry_after: float

    @property
    def good(self) -> bool:
        """Whether it belongs to the output, not to the errors."""
        return 200 <= self.status < 300

    @property
    def no_room(self) -> bool:
        """Whether the request was refused for lack of room, or by a limit."""
        return self.status in _NO_ROOM


class PreparedRequest(Protocol):
    """A batch's request, on the path of any other request."""

    @property
    def record(self) -> RequestRecord:
        """The request's record so far."""
        ...

    async def send(self) -> Reply:
        """Send the request, once. Raises nothing but a cancellation."""
        ...


class RequestSender(Protocol):
    """Makes batches' requests (gateway/api/server/internal_requests.py)."""

    def request(self, caller: Caller, path: str, body: bytes) -> PreparedRequest:
        """Make a request, to be sent in the current task. Raises ClientError where the path is not served."""
        ...

    def refused(self, error: PenstockError) -> Reply:
        """Make the reply to a request that is never sent."""
        ...

    def ended(self, record: RequestRecord) -> None:
        """Publish the record of a request that counts."""
        ...
