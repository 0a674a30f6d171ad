"""What every answer of this API has, whatever it says: its form of errors, and its headers."""

from functools import partial

from gateway.api.anthropic.errors import error_body, error_event
from gateway.api.anthropic.headers import rate_headers
from gateway.api.server.error_form import ErrorForm
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.services import Services

#: Of requests that have not come so far as to have an id.
ERRORS = ErrorForm(partial(error_body, request_id=""), partial(error_event, request_id=""))


def speak_anthropic(exchange: HttpExchange) -> None:
    """Answer this request, and refuse it, as Anthropic's clients expect it."""
    request_id = exchange.request_id
    exchange.errors = ErrorForm(partial(error_body, request_id=request_id), partial(error_event, request_id=request_id))
    exchange.fixed_headers.append((b"request-id", request_id.encode()))


def tell_rates(services: Services, exchange: HttpExchange) -> None:
    """Once it is known who asks: tell the state of the caller's limits in this API's headers as well."""
    told, key_id = exchange.caller_headers, exchange.record.key_id
    exchange.caller_headers = lambda: told() + rate_headers(services.limiter.last_rate(key_id))
