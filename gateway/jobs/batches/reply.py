"""What a request of a batch is answered, and the seam that makes such requests."""

from dataclasses import dataclass
from typing import Final, Protocol

from gateway.tenancy.tenants.caller import Caller
from observability.record import RequestRecord
from protos.errors import PenstockError

#: Paths that batches may be for.
PATHS: Final = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses")
_NO_ROOM: Final = (429, 503)


@dataclass(frozen=True, slots=True)
class Reply:
    """`again`: the answer says that another try may help, in `retry_after` seconds."""

    status: int
    request_id: str
    body: bytes
    record: RequestRecord
    again: bool
    retry_after: float

    @property
    def good(self) -> bool:
        """Whether it belongs to the output, and not to the errors."""
        return 200 <= self.status < 300

    @property
    def no_room(self) -> bool:
        """Whether it was refused for lack of room, or by a limit."""
        return self.status in _NO_ROOM


class PreparedRequest(Protocol):
    """A request of a batch on the path of any other request."""

    @property
    def record(self) -> RequestRecord:
        """What is known of the request so far."""
        ...

    async def send(self) -> Reply:
        """Make the request, once. Raises nothing but a cancellation."""
        ...


class RequestSender(Protocol):
    """Makes requests of batches (gateway/api/server/internal_requests.py)."""

    def request(self, caller: Caller, path: str, body: bytes) -> PreparedRequest:
        """The request, to be sent in the task that asks for it. Raises ClientError where the path is not served."""
        ...

    def refused(self, error: PenstockError) -> Reply:
        """The reply to a request that is never made."""
        ...

    def ended(self, record: RequestRecord) -> None:
        """Publish the record of a request that counts."""
        ...
