"""The ASGI application of one worker process."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from functools import partial
from itertools import groupby
from re import Pattern
from typing import Final

from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.api.anthropic.messages_routes import ROUTES as MESSAGES
from gateway.api.feedback.give_feedback import ROUTES as FEEDBACK
from gateway.api.files.batch_endpoints import ROUTES as BATCHES
from gateway.api.files.file_endpoints import ROUTES as FILES
from gateway.api.openai.chat import CHAT
from gateway.api.openai.completions import COMPLETIONS
from gateway.api.openai.embeddings import ROUTES as EMBEDDINGS
from gateway.api.openai.infer import infer
from gateway.api.openai.model_list import get_model, list_models
from gateway.api.openai.moderations import moderate
from gateway.api.openai.rerank import ROUTES as RERANK
from gateway.api.openai.tokenize import ROUTES as TOKENIZE
from gateway.api.openapi.openapi_route import documented
from gateway.api.responses.responses_routes import ROUTES as RESPONSES_ROUTES
from gateway.api.server.api_route import ApiRoute, Handler
from gateway.api.server.cors import CrossOrigin
from gateway.api.server.error_form import OPENAI_ERRORS, ErrorForm
from gateway.api.server.health import healthz, readyz, show_version
from gateway.api.server.http_exchange import OTHER, HttpExchange
from gateway.api.server.run_handler import serve
from gateway.api.server.services import Services
from gateway.api.server.url_hints import suggested_path
from gateway.config.network.proxies import networks_of
from gateway.config.settings import Config
from gateway.reload.participant import ReloadLink
from gateway.server.closing import closing
from gateway.server.gateway import Gateway
from gateway.server.stop_accepting import stop_accepting
from gateway.server.trusted_proxies import TrustedProxies, behind_proxies
from gateway.server.worker_signals import BEGIN_DRAIN, END_STREAMS, STOP_ACCEPTING
from gateway.text.tokens.loader import release_memory
from protos.errors import MethodNotAllowed, RouteNotFound

#: The key of a handler that takes every method.
ANY: Final = "*"


class Endpoint:
    """An ASGI application for one path: check the method, count the request, render errors."""

    def __init__(
        self,
        state: "State",
        handlers: Mapping[str, Handler],
        name: str = "",
        errors: ErrorForm = OPENAI_ERRORS,
        cross_origin: CrossOrigin | None = None,
    ) -> None:
        """`handlers` are by method, which may be `ANY`. Requests to a named endpoint are recorded when they end."""
        self._state = state
        self._handlers = dict(handlers)
        self._methods = [*(method for method in handlers if method != ANY), "OPTIONS"]
        if "GET" in handlers:
            self._methods.insert(self._methods.index("GET") + 1, "HEAD")
        self._cross_origin = cross_origin
        self._name = name
        self._named = bool(name)
        self._errors = errors

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Answer one request; raises nothing but a cancellation."""
        # Returns the awaitable without a coroutine of its own, which would be resumed with every token.
        services = self._state.services
        exchange = HttpExchange(scope, receive, send, services.sampler, self._name)
        exchange.errors = self._errors
        if self._cross_origin is not None:
            self._cross_origin.mark(exchange, scope)
        handler = self._handlers.get(exchange.method)
        if handler is None:
            handler, named = self._other_method_handler(exchange, scope)
            return serve(services, exchange, handler, named=named)
        return serve(services, exchange, handler, named=self._named)

    def _other_method_handler(self, exchange: HttpExchange, scope: Scope) -> tuple[Handler, bool]:
        """Choose a handler, and whether the request is recorded: a question for the allowed methods is not."""
        if exchange.method == "HEAD":
            # GET without the body (RFC 9110, 9.3.2).
            exchange.wrap_send(_without_body)
            if "GET" in self._handlers:
                return self._handlers["GET"], self._named
        if self._cross_origin is not None:
            headers = self._cross_origin.preflight(scope, self._methods)
            if headers is not None:
                return partial(_answer_empty, headers=headers), False
        if ANY in self._handlers:
            return self._handlers[ANY], self._named
        if exchange.method == "OPTIONS":
            return partial(_answer_empty, headers=[self._allow]), False
        return self._refuse_method, self._named

    @property
    def _allow(self) -> tuple[bytes, bytes]:
        return b"allow", ", ".join(self._methods).encode()

    async def _refuse_method(self, services: Services, exchange: HttpExchange) -> None:
        exchange.answer_headers = [self._allow]
        use = " or ".join(method for method in self._methods if method not in ("HEAD", "OPTIONS"))
        raise MethodNotAllowed(f"Not allowed to {exchange.method} on {exchange.path}; use {use}.")


def _without_body(send: Send) -> Send:
    """Send the headers alone, since not every server does this for HEAD."""

    async def headers_alone(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
        elif not message.get("more_body", False):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return headers_alone


class State:
    """The services of the worker; the lifespan sets them before any request arrives."""

    services: Services


async def _answer_empty(services: Services, exchange: HttpExchange, headers: list[tuple[bytes, bytes]]) -> None:
    await exchange.respond(200, b"", headers=headers)


async def _refuse_path(services: Services, exchange: HttpExchange, known: Iterable[Pattern[str]]) -> None:
    path = exchange.path if len(exchange.path) <= 128 else exchange.path[:128] + "..."
    near = suggested_path(exchange.path, known)
    hint = "" if near is None or len(near) > 128 else f". Did you mean {near}?"
    raise RouteNotFound(f"Invalid URL ({exchange.method} {path}){hint}")


_ROUTES: Final = (
    ApiRoute("POST", "/v1/chat/completions", partial(infer, api=CHAT), CHAT.endpoint),
    ApiRoute("POST", "/v1/completions", partial(infer, api=COMPLETIONS), COMPLETIONS.endpoint),
    *MESSAGES,
    *EMBEDDINGS,
    *RERANK,
    *TOKENIZE,
    ApiRoute("GET", "/v1/models", list_models, "models"),
    ApiRoute("GET", "/v1/models/{model:path}", get_model, "models"),
    ApiRoute("POST", "/v1/moderations", moderate, "moderations"),
    *FEEDBACK,
    *RESPONSES_ROUTES,
    *FILES,
    *BATCHES,
    ApiRoute("GET", "/healthz", healthz),
    ApiRoute("GET", "/readyz", readyz),
    ApiRoute("GET", "/version", show_version),
)
#: Paths that clients of other servers ask (vLLM's, SGLang's, Cohere's, load balancers'), by those that answer them.
_ALIASES: Final = {
    "/health": "/healthz",
    "/ping": "/healthz",
    "/rerank": "/v1/rerank",
    "/v2/rerank": "/v1/rerank",
    "/score": "/v1/score",
    "/tokenize": "/v1/tokenize",
    "/detokenize": "/v1/detokenize",
}
#: All routes of the API; neighbours with the same path share an endpoint.
ROUTES: Final = documented(_ROUTES)


def build(config: Config, supervisor: str | None = None) -> ASGIApp:
    """Build the application of a configuration; its lifespan opens and closes all parts.

    `supervisor` is the socket of the process that tells it of another configuration; None: it keeps this one.
    """
    state = State()

    def serve_by(services: Services) -> None:
        state.services = services

    @contextlib.asynccontextmanager
    async def lifespan(_: Router) -> AsyncIterator[None]:
        gateway = Gateway(config, ROUTES)
        gateway.on_services = serve_by
        serve_by(gateway.services)
        following: asyncio.Task[None] | None = None
        try:
            await gateway.start()
            if supervisor is not None:
                link = ReloadLink(supervisor, "worker", config, gateway, gateway.reloaded)
                following = asyncio.create_task(link.run())
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(BEGIN_DRAIN, begin_drain, gateway)
            loop.add_signal_handler(STOP_ACCEPTING, stop_accepting, config.listen.port)
            loop.add_signal_handler(END_STREAMS, gateway.end_streams)
            gc.collect()
            release_memory()
            gc.freeze()
            yield
        finally:
            if following is not None:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
            await gateway.aclose()

    cross_origin = None if config.listen.cors is None else CrossOrigin(config.listen.cors)

    def endpoint(routes: Iterable[ApiRoute]) -> Endpoint:
        first, *others = routes
        handlers = {one.method: one.handler for one in (first, *others)}
        return Endpoint(state, handlers, first.endpoint, first.errors, cross_origin)

    paths: dict[str, ASGIApp] = {
        path: endpoint(routes) for path, routes in groupby(ROUTES, key=lambda route: route.path)
    }
    paths |= {path: paths[served] for path, served in _ALIASES.items()}
    # No `methods`: a wrong one gets our error, in the API's form, from the endpoint itself.
    routes = [Route(path, served) for path, served in paths.items()]
    offered = {route.path for route in ROUTES if route.method != ANY}
    refuse_path = partial(_refuse_path, known=[route.path_regex for route in routes if route.path in offered])
    router: ASGIApp = Router(
        routes=routes,
        redirect_slashes=False,
        default=Endpoint(state, {ANY: refuse_path}, OTHER, cross_origin=cross_origin),
        lifespan=lifespan,
    )
    if config.listen.trusted_proxies:
        proxies = TrustedProxies(networks_of(config.listen.trusted_proxies))
        paths = {path: behind_proxies(served, proxies) for path, served in paths.items()}
        router = behind_proxies(router, proxies)
    direct = {path: served for path, served in paths.items() if "{" not in path}

    def begin_drain(gateway: Gateway) -> None:
        nonlocal direct, router
        if not gateway.draining:
            gateway.begin_drain()
            direct = {path: closing(served) for path, served in direct.items()}
            router = closing(router)

    def app(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        # Every coroutine between the server and the stream is resumed once per token, and Starlette's application
        # class would wrap `send` twice as well: generating paths go straight to their endpoint.
        return direct.get(scope.get("path", ""), router)(scope, receive, send)

    return app
