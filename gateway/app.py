"""The ASGI application of one worker process."""

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.config import Config
from gateway.end_streams import END_STREAMS
from gateway.gateway import Gateway
from gateway.http.chat import CHAT
from gateway.http.completions import COMPLETIONS
from gateway.http.exchange import Exchange, error_headers, log_failure
from gateway.http.health import healthz, readyz
from gateway.http.inference import infer
from gateway.http.models import get_model, list_models
from gateway.http.moderations import moderate
from gateway.http.openai_errors import error_body, error_event
from protos.errors import InternalError, MethodNotAllowed, PenstockError, RouteNotFound

log = logging.getLogger(__name__)

Handler = Callable[[Gateway, Exchange], Awaitable[None]]


class Endpoint:
    """An ASGI application for one path: checks the method, counts the request, renders what goes wrong."""

    def __init__(self, state: "State", method: str, handler: Handler) -> None:
        self._state = state
        self._method = method
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; raises nothing but a cancellation."""
        exchange = Exchange(scope, receive, send)
        gateway = self._state.gateway
        try:
            # HEAD is GET without the body (RFC 9110, 9.3.2), which the server leaves out.
            if exchange.method != self._method and (exchange.method, self._method) != ("HEAD", "GET"):
                raise MethodNotAllowed(f"Not allowed to {exchange.method} on {exchange.path}; use {self._method}.")
            await self._handler(gateway, exchange)
        except Exception as error:
            await _answer_error(exchange, error, self._method)
        finally:
            gateway.overseer.leave(exchange)


class State:
    """What the lifespan fills in; requests come only after it."""

    gateway: Gateway


async def _answer_error(exchange: Exchange, error: Exception, method: str | None = None) -> None:
    if not isinstance(error, PenstockError):
        log.error("request %s failed", exchange.request_id, exc_info=error)
        error = InternalError("The gateway failed on this request.")
    log_failure(exchange.request_id, error)
    if exchange.started:
        await exchange.end(error_event(error))
        return
    headers = error_headers(error)
    if isinstance(error, MethodNotAllowed) and method is not None:
        headers.append((b"allow", method.encode()))
    await exchange.respond(error.status, error_body(error), headers=headers)


async def _unknown_path(scope: Scope, receive: Receive, send: Send) -> None:
    exchange = Exchange(scope, receive, send)
    path = exchange.path if len(exchange.path) <= 128 else exchange.path[:128] + "..."
    await _answer_error(exchange, RouteNotFound(f"Invalid URL ({exchange.method} {path})"))


def build(config: Config) -> ASGIApp:
    """The application for a configuration; its lifespan opens and closes everything."""
    state = State()

    @contextlib.asynccontextmanager
    async def lifespan(_: Router) -> AsyncIterator[None]:
        state.gateway = Gateway(config)
        try:
            await state.gateway.start()
            asyncio.get_running_loop().add_signal_handler(END_STREAMS, state.gateway.end_streams)
            gc.collect()
            gc.freeze()
            yield
        finally:
            await state.gateway.aclose()

    def route(path: str, method: str, handler: Handler) -> Route:
        # No `methods`: a wrong one gets our error, in the API's form, from the endpoint itself.
        return Route(path, Endpoint(state, method, handler))

    router = Router(
        routes=[
            route("/v1/models", "GET", list_models),
            route("/v1/models/{model:path}", "GET", get_model),
            route("/v1/moderations", "POST", moderate),
            route("/healthz", "GET", healthz),
            route("/readyz", "GET", readyz),
        ],
        redirect_slashes=False,
        default=_unknown_path,
        lifespan=lifespan,
    )
    direct = {
        "/v1/chat/completions": Endpoint(state, "POST", partial(infer, dialect=CHAT)),
        "/v1/completions": Endpoint(state, "POST", partial(infer, dialect=COMPLETIONS)),
    }

    def app(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        # Every coroutine between the server and the stream is resumed once per token, and Starlette's application
        # class would wrap `send` twice as well: generating paths go straight to their endpoint.
        return direct.get(scope.get("path", ""), router)(scope, receive, send)

    return app
