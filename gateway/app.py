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
from gateway.http.exchange import OTHER, Exchange, error_headers
from gateway.http.health import healthz, readyz
from gateway.http.inference import infer
from gateway.http.models import get_model, list_models
from gateway.http.moderations import moderate
from gateway.http.openai_errors import error_body, error_event
from protos.errors import ClientGone, InternalError, MethodNotAllowed, PenstockError, RouteNotFound

log = logging.getLogger(__name__)

Handler = Callable[[Gateway, Exchange], Awaitable[None]]


class Endpoint:
    """An ASGI application for one path: checks the method, counts the request, renders what goes wrong."""

    def __init__(self, state: "State", method: str | None, handler: Handler, name: str = "") -> None:
        """`method` None: any. Requests to an endpoint with a name are told of once they have ended."""
        self._state = state
        self._method = method
        self._handler = handler
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; raises nothing but a cancellation."""
        gateway = self._state.gateway
        exchange = Exchange(scope, receive, send, gateway.sampler, self._name)
        try:
            # HEAD is GET without the body (RFC 9110, 9.3.2), which the server leaves out.
            if self._method not in (exchange.method, None) and (exchange.method, self._method) != ("HEAD", "GET"):
                raise MethodNotAllowed(f"Not allowed to {exchange.method} on {exchange.path}; use {self._method}.")
            await self._handler(gateway, exchange)
        except asyncio.CancelledError:
            # Of a client that takes nothing any more: the overseer has given it up.
            exchange.note_failure(ClientGone("The client took nothing of its answer."))
            raise
        except Exception as error:
            await _answer_error(exchange, error, self._method)
        finally:
            gateway.overseer.leave(exchange)
            if self._name:
                gateway.observatory.ended(exchange.record)


class State:
    """What the lifespan fills in; requests come only after it."""

    gateway: Gateway


async def _answer_error(exchange: Exchange, error: Exception, method: str | None = None) -> None:
    if not isinstance(error, PenstockError):
        log.error("request %s failed", exchange.request_id, exc_info=error)
        error = InternalError("The gateway failed on this request.")
    exchange.note_failure(error)
    if exchange.started:
        await exchange.end(error_event(error))
        return
    headers = error_headers(error)
    if isinstance(error, MethodNotAllowed) and method is not None:
        headers.append((b"allow", method.encode()))
    await exchange.respond(error.status, error_body(error), headers=headers)


async def _refuse_path(gateway: Gateway, exchange: Exchange) -> None:
    path = exchange.path if len(exchange.path) <= 128 else exchange.path[:128] + "..."
    raise RouteNotFound(f"Invalid URL ({exchange.method} {path})")


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

    def route(path: str, method: str, handler: Handler, name: str = "") -> Route:
        # No `methods`: a wrong one gets our error, in the API's form, from the endpoint itself.
        return Route(path, Endpoint(state, method, handler, name))

    router = Router(
        routes=[
            route("/v1/models", "GET", list_models, "models"),
            route("/v1/models/{model:path}", "GET", get_model, "models"),
            route("/v1/moderations", "POST", moderate, "moderations"),
            route("/healthz", "GET", healthz),
            route("/readyz", "GET", readyz),
        ],
        redirect_slashes=False,
        default=Endpoint(state, None, _refuse_path, OTHER),
        lifespan=lifespan,
    )
    direct = {
        "/v1/chat/completions": Endpoint(state, "POST", partial(infer, dialect=CHAT), CHAT.endpoint),
        "/v1/completions": Endpoint(state, "POST", partial(infer, dialect=COMPLETIONS), COMPLETIONS.endpoint),
    }

    def app(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        # Every coroutine between the server and the stream is resumed once per token, and Starlette's application
        # class would wrap `send` twice as well: generating paths go straight to their endpoint.
        return direct.get(scope.get("path", ""), router)(scope, receive, send)

    return app
