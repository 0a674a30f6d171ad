"""Run a handler; turn exceptions into error responses; publish the request record once."""

import asyncio
import logging

from gateway.api.server.api_route import Handler
from gateway.api.server.error_form import error_headers
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.services import Services
from protos.errors import ClientGone, InternalError, PenstockError

log = logging.getLogger(__name__)


async def serve(services: Services, exchange: HttpExchange, handler: Handler, *, named: bool) -> None:
    """Run the handler of a request; raise nothing but a cancellation. The record of a `named` request is published."""
    try:
        await handler(services, exchange)
    except asyncio.CancelledError:
        # The watchdog cancels a request whose client reads nothing.
        exchange.note_failure(ClientGone("The client took nothing of its answer."))
        raise
    except Exception as error:
        await _answer_error(exchange, error)
    else:
        return
    finally:
        services.watchdog.leave(exchange)
        if named:
            services.record_publisher.ended(exchange.record)
    await exchange.discard_rest()


async def _answer_error(exchange: HttpExchange, error: Exception) -> None:
    if not isinstance(error, PenstockError):
        log.error("request %s failed", exchange.request_id, exc_info=error)
        error = InternalError("The gateway failed on this request.")
    exchange.note_failure(error)
    if exchange.started:
        await exchange.end(exchange.errors.event(error))
        return
    await exchange.respond(error.status, exchange.errors.body(error), headers=error_headers(error))
