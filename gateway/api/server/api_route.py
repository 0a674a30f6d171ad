"""An API route: one method of one path, with its handler."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gateway.api.server.error_form import OPENAI_ERRORS, ErrorForm
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.services import Services

Handler = Callable[[Services, HttpExchange], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """`path` is in Starlette's syntax, with `{name}` for a path parameter; the handler reads `exchange.path_params`.

    `endpoint` names the requests in metrics and in the journal; requests of a route without one are not recorded.
    """

    method: str
    path: str
    handler: Handler
    endpoint: str = ""
    errors: ErrorForm = OPENAI_ERRORS
