"""One request of a batch, through the same path as any other."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.api.server.api_route import ApiRoute
from gateway.api.server.internal_exchange import InnerExchange
from gateway.api.server.run_handler import serve
from gateway.tenancy.tenants.caller import Caller
from observability.record import RequestRecord

if TYPE_CHECKING:
    from gateway.server.gateway import Gateway

#: Paths that batches may be for, as far as the gateway has them.
PATHS: Final = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses")
#: What another try may help against only after a good while, such as a budget that is spent until its period ends.
_LATER: Final = {"insufficient_quota": 60.0}
_NO_ROOM: Final = (429, 503)


@dataclass(frozen=True, slots=True)
class Reply:
    """`again`: what answered says that another try may help, in `retry_after` seconds."""

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


def route_of(path: str) -> ApiRoute | None:
    """What answers there, if a batch may ask it."""
    from gateway.server.app import ROUTES  # which is made of all there is, this too

    if path not in PATHS:
        return None
    return next((route for route in ROUTES if route.path == path and route.method == "POST"), None)


def exchange_of(gateway: "Gateway", caller: Caller, route: ApiRoute, body: bytes) -> InnerExchange:
    """The request, to be made in the task that it is to run in."""
    exchange = InnerExchange(caller, route.path, body, gateway.sampler, route.endpoint)
    exchange.errors = route.errors
    return exchange


async def ask(gateway: "Gateway", exchange: InnerExchange, route: ApiRoute) -> Reply:
    """Make the request. Raises nothing but a cancellation."""
    # Told of once it is known that it counts: one that is tried again is no request of anybody's.
    await serve(gateway, lambda: (exchange, route.handler, False))
    headers, record = dict(exchange.headers), exchange.record
    wait = float(headers.get(b"retry-after-ms", b"0")) / 1000.0
    again = headers.get(b"x-should-retry") == b"true"
    if record.code in _LATER:
        again, wait = True, _LATER[record.code]
    return Reply(exchange.status, exchange.request_id, exchange.answer, record, again, wait)
