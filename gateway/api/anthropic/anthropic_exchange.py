"""Set up an exchange for Anthropic's API: its error form and its headers."""

from functools import partial

from gateway.api.anthropic.errors import error_body, error_event
from gateway.api.anthropic.headers import rate_headers
from gateway.api.server.error_form import ErrorForm
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.services import Services

#: The error form of requests that have no id yet.
ERRORS = ErrorForm(partial(error_body, request_id=""), partial(error_event, request_id=""))


def use_messages_format(exchange: HttpExchange) -> None:
    """Give the exchange the errors and headers that Anthropic's clients expect."""
    request_id = exchange.request_id
    exchange.errors = ErrorForm(partial(error_body, request_id=request_id), partial(error_event, request_id=request_id))
    exchange.fixed_headers.append((b"request-id", request_id.encode()))


def add_rate_headers(services: Services, exchange: HttpExchange) -> None:
    """Add the caller's limits to the answer in this API's headers, once the caller is known."""
    openai_headers, key_id = exchange.caller_headers, exchange.record.key_id
    exchange.caller_headers = lambda: openai_headers() + rate_headers(services.limiter.last_rate(key_id))
