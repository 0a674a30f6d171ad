"""Internal requests of batches: the `RequestSender` of gateway/jobs/batches/reply.py."""

import secrets
from collections.abc import Callable, Iterable
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

#: Error codes that allow another attempt only after so many seconds: a budget is spent until its period ends.
_LATER: Final = {"insufficient_quota": 60.0}


class InternalRequests:
    """The request sender of one worker."""

    def __init__(self, services: Callable[[], Services], routes: Iterable[ApiRoute]) -> None:
        """`services` gives those of the configuration in use."""
        self._services = services
        self._routes = {route.path: route for route in routes if route.method == "POST" and route.path in PATHS}

    def request(self, caller: Caller, path: str, body: bytes) -> "InternalRequest":
        """Make a request. Raises ClientError where the path is not served."""
        route = self._routes.get(path)
        if route is None:
            raise ClientError(f"{path} is not served any more.")
        return InternalRequest(self._services(), caller, route, body)

    def refused(self, error: PenstockError) -> Reply:
        """Make the reply that a client would get for the error."""
        request_id = "req_" + secrets.token_hex(12)
        record = RequestRecord(request_id, "", 0.0, 0.0)
        body = OPENAI_ERRORS.body(error)
        return Reply(error.status, request_id, body, record, error.retryable, error.retry_after or 0.0)

    def ended(self, record: RequestRecord) -> None:
        """Publish a record."""
        self._services().record_publisher.ended(record)


class InternalRequest:
    """One internal request; made in the task that runs it."""

    def __init__(self, services: Services, caller: Caller, route: ApiRoute, body: bytes) -> None:
        self._services = services
        self._route = route
        self._exchange = InternalExchange(caller, route.path, body, services.sampler, route.endpoint)
        self._exchange.errors = route.errors

    @property
    def record(self) -> RequestRecord:
        """The request's record so far."""
        return self._exchange.record

    async def send(self) -> Reply:
        """Send the request and return the reply. Raises nothing but a cancellation."""
        exchange, handler = self._exchange, self._route.handler
        # The caller publishes the record once the reply counts: an attempt that is repeated is nobody's request.
        await serve(self._services, exchange, handler, named=False)
        headers, record = dict(exchange.headers), exchange.record
        wait = float(headers.get(b"retry-after-ms", b"0")) / 1000.0
        retryable = headers.get(b"x-should-retry") == b"true"
        if record.code in _LATER:
            retryable, wait = True, _LATER[record.code]
        return Reply(exchange.status, exchange.request_id, exchange.answer, record, retryable, wait)
