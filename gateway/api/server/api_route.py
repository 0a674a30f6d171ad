"""One method of one path of the gateway's API."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gateway.api.server.error_form import OPENAI_ERRORS, ErrorForm
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.services import Services

Handler = Callable[[Services, HttpExchange], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """`path` is Starlette's, with `{name}` for a part that varies; the handler finds those in `exchange.path_params`.

    `endpoint` is the name that such requests are told of by once they have ended; empty: they are not told of.
    """

    method: str
    path: str
    handler: Handler
    endpoint: str = ""
    errors: ErrorForm = OPENAI_ERRORS
