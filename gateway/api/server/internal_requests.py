"""Requests of batches, on the same path as any client's: the `RequestSender` of gateway/jobs/batches/reply.py."""

import secrets
from collections.abc import Iterable
from typing import Final

from gateway.api.server.api_route import ApiRoute
from gateway.api.server.error_form import OPENAI_ERRORS
from gateway.api.server.internal_exchange import InternalExchange
from gateway.api.server.run_handler import serve
from gateway.api.server.services import Services
from gateway.jobs.batches.reply import PATHS, Reply
from gateway.tenancy.tenants.caller import Caller
from observability.record import RequestRecord
from protos.errors import ClientError, PenstockError

#: Codes that another try may help against only after a good while, in seconds: a budget is spent until its period ends.
_LATER: Final = {"insufficient_quota": 60.0}


class InternalRequests:
    """The sender of one worker."""

    def __init__(self, services: Services, routes: Iterable[ApiRoute]) -> None:
        self._services = services
        self._routes = {route.path: route for route in routes if route.method == "POST" and route.path in PATHS}

    def request(self, caller: Caller, path: str, body: bytes) -> "InternalRequest":
        """A request whose send gives a `Reply`. Raises ClientError where the path is not served."""
        route = self._routes.get(path)
        if route is None:
            raise ClientError(f"{path} is not served any more.")
        return InternalRequest(self._services, caller, route, body)

    def refused(self, error: PenstockError) -> Reply:
        """The reply that a client would have got."""
        request_id = "req_" + secrets.token_hex(12)
        record = RequestRecord(request_id, "", 0.0, 0.0)
        body = OPENAI_ERRORS.body(error)
        return Reply(error.status, request_id, body, record, error.retryable, error.retry_after or 0.0)

    def ended(self, record: RequestRecord) -> None:
        """Publish a record."""
        self._services.record_publisher.ended(record)


class InternalRequest:
    """One request; made in the task that it is to run in."""

    def __init__(self, services: Services, caller: Caller, route: ApiRoute, body: bytes) -> None:
        self._services = services
        self._route = route
        self._exchange = InternalExchange(caller, route.path, body, services.sampler, route.endpoint)
        self._exchange.errors = route.errors

    @property
    def record(self) -> RequestRecord:
        """What is known of the request so far."""
        return self._exchange.record

    async def send(self) -> Reply:
        """Make the request. Raises nothing but a cancellation."""
        exchange, handler = self._exchange, self._route.handler
        # Its record is published once it is known to count: one that is tried again is no request of anybody's.
        await serve(self._services, lambda: (exchange, handler, False))
        headers, record = dict(exchange.headers), exchange.record
        wait = float(headers.get(b"retry-after-ms", b"0")) / 1000.0
        again = headers.get(b"x-should-retry") == b"true"
        if record.code in _LATER:
            again, wait = True, _LATER[record.code]
        return Reply(exchange.status, exchange.request_id, exchange.answer, record, again, wait)
