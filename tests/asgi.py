"""A gateway worker in this process: the real application under its lifespan, and a client that speaks ASGI."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import orjson
import pytest

import gateway.server.app
import gateway.server.gateway
from gateway.api.server.api_route import ApiRoute
from gateway.config.models.settings import Model
from gateway.config.observability.journal import Journal
from gateway.config.observability.metrics import Metrics
from gateway.config.observability.settings import Observability
from gateway.config.settings import Config
from gateway.config.tenants import DEFAULT_TENANT, Limits
from gateway.store.store_client import Store
from gateway.tenancy.auth.key_store import KeyRequest, KeyStore
from gateway.text.tokens.identity import tokenizer_hash
from gateway.text.tokens.loader import load_tokenizer
from replicas.engine import Engine
from tests.harness import MODEL, serving, tekken, tekken_hash
from tests.loops import BOUND_SECONDS, until

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
#: Where requests come from.
PEER = ("127.0.0.1", 1)
HELLO = [{"role": "user", "content": "Hello!"}]
QUIET = Observability(metrics=Metrics(enabled=False), journal=Journal(enabled=False))


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The OpenAI error object, which must be one."""
        parsed = self.json
        assert list(parsed) == ["error"]
        error: dict[str, Any] = parsed["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert isinstance(error["message"], str)
        assert error["message"]
        assert error["type"] in ("invalid_request_error", "server_error", "rate_limit_exceeded", "insufficient_quota")
        assert all(error[name] is None or isinstance(error[name], str) for name in ("param", "code"))
        assert self.headers["content-type"] == "application/json"
        return error

    @property
    def events(self) -> list[Any]:
        """The stream's events, parsed; `[DONE]` as it is."""
        parts = self.body.decode().split("\n\n")
        assert parts.pop() == ""
        assert all(part.startswith("data: ") for part in parts)
        return [part[6:] if part == "data: [DONE]" else orjson.loads(part[6:]) for part in parts]


@dataclass
class Call:
    """One exchange in the hands of the test: what the client sends is put, what it gets is read."""

    incoming: "asyncio.Queue[dict[str, Any]]" = field(default_factory=asyncio.Queue)
    sent: list[Any] = field(default_factory=list)
    task: "asyncio.Task[None] | None" = None
    method: str = "POST"

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        # A server gives the loop a turn with every message.
        await asyncio.sleep(0)

    def disconnect(self) -> None:
        self.incoming.put_nowait({"type": "http.disconnect"})

    def put(self, body: bytes, *, more: bool = False) -> None:
        self.incoming.put_nowait({"type": "http.request", "body": body, "more_body": more})

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    async def answer(self) -> Answer:
        assert self.task is not None
        await self.task
        start, *rest = self.sent
        assert start["type"] == "http.response.start"
        assert all(message["type"] == "http.response.body" for message in rest)
        assert [message.get("more_body", False) for message in rest] == [True] * (len(rest) - 1) + [False]
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        assert all(name == name.lower() for name in headers)
        if self.method == "HEAD":
            assert self.body == b""
        elif "content-length" in headers:
            assert int(headers["content-length"]) == len(self.body)
        return Answer(start["status"], headers, self.body)


class Client:
    """Calls the application as a server would."""

    def __init__(self, app: Any, gateway: "gateway.server.gateway.Gateway", key: str) -> None:
        self._app = app
        self.gateway = gateway
        self.key = key

    @property
    def active(self) -> int:
        """Requests that have begun and not ended."""
        return len(self.gateway.watchdog.active)

    def out_of_time(self) -> None:
        """Let the time of all requests under way be over, as the watchdog finds when it looks next."""
        for exchange in self.gateway.watchdog.active:
            exchange.deadline = 0.0

    async def proven(self, count: int, model: str = MODEL) -> None:
        """Wait for `count` replicas that have answered their probes: before, one of them may be set aside a while."""
        fleet = self.gateway.models[model].fleet
        await until(lambda: sum(connection.health.proven for connection in fleet._connections.values()) == count)
        await until(lambda: len(fleet.candidates()) == count)

    def call(self, method: str, path: str, headers: Sequence[tuple[bytes, bytes]] | None = None) -> Call:
        """Begin an exchange; its body is still to be put."""
        if headers is None:
            headers = [(b"authorization", b"Bearer " + self.key.encode())]
        call = Call(method=method)
        path, _, query = path.partition("?")
        scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "headers": list(headers)}
        scope |= {"query_string": query.encode(), "http_version": "1.1", "root_path": "", "scheme": "http"}
        scope["client"] = PEER
        call.task = asyncio.ensure_future(self._app(scope, call.incoming.get, call.send))
        return call

    async def request(
        self, method: str, path: str, body: Any = b"", headers: Sequence[tuple[bytes, bytes]] | None = None
    ) -> Answer:
        """A whole exchange; a body that is no bytes is written as JSON."""
        call = self.call(method, path, headers)
        call.put(body if isinstance(body, bytes) else orjson.dumps(body))
        return await call.answer()

    async def chat(self, **fields: Any) -> Answer:
        return await self.request("POST", CHAT, {"model": MODEL, "messages": HELLO, "max_tokens": 20} | fields)

    async def complete(self, **fields: Any) -> Answer:
        return await self.request("POST", COMPLETIONS, {"model": MODEL, "prompt": "Hello", "max_tokens": 20} | fields)


def config_of(
    store_url: str,
    addresses: Sequence[str],
    *,
    tenant: Any = None,
    price: Any = None,
    store: Any = None,
    routing: Any = None,
    model_fields: Any = None,
    safety: Any = None,
    observability: Any = None,
    files: Any = None,
    batches: Any = None,
    responses: Any = None,
    kubernetes: Any = None,
    **listen: Any,
) -> Config:
    """A configuration with one pool of replicas that run already, and perhaps a tenant."""
    pool = {"name": "pool", "shape": {"tp": 2}, "engine": "simulated"}
    pool["replicas"] = [a if a.startswith("unix:") else f"grpc://{a}" for a in addresses]
    model = {"name": MODEL, "tokenizer": "mistral-tekken", "context": 2000, "pools": [pool]}
    if price is not None:
        model["price"] = price
    if routing is not None:
        model["routing"] = routing
    model |= model_fields or {}
    tenants = [] if tenant is None else [tenant]
    sections: dict[str, Any] = {
        "listen": listen,
        # A machine that stands still for a second is no store that is away.
        "store": {"url": store_url, "timeout_seconds": 10, **(store or {})},
        "models": [model],
        "tenants": tenants,
    }
    if observability is not None:
        sections["observability"] = observability
    own = {"safety": safety, "files": files, "batches": batches, "responses": responses, "kubernetes": kubernetes}
    sections |= {name: section for name, section in own.items() if section is not None}
    return msgspec.convert(sections, Config)


@contextlib.asynccontextmanager
async def gateway_of(
    store_url: str,
    *engines: Engine,
    addresses: Sequence[str] = (),
    models: Sequence[str] = ("*",),
    more_models: Sequence[dict[str, Any]] = (),
    tenant: dict[str, Any] | None = None,
    key_limits: dict[str, Any] | None = None,
    explain: bool = False,
    **sections: Any,
) -> AsyncIterator[Client]:
    """A worker in front of replicas of these engines, and a client with a key for `models`, of `tenant` if it is given.

    `more_models` follow the one of the engines, as the configuration has them; without engines and addresses they are
    all there are. `sections` are `price`, `store`, `routing`, `safety` and further `model_fields` of the configuration,
    and what else its `listen` has.
    """
    async with contextlib.AsyncExitStack() as stack:
        found = [(await stack.enter_async_context(serving(engine)))[1] for engine in engines]
        store = Store(store_url, timeout=10.0)
        request = KeyRequest(
            name=f"test {secrets.token_hex(4)}",
            models=tuple(models),
            tenant=DEFAULT_TENANT if tenant is None else tenant["name"],
            limits=msgspec.convert(key_limits or {}, Limits),
            explain=explain,
        )
        _, key = await KeyStore(store).create(request)
        await store.aclose()
        own = [*found, *addresses]
        config = config_of(store_url, own or ["unix:/nowhere"], tenant=tenant, **sections)
        if more_models:
            others = msgspec.convert(more_models, tuple[Model, ...])
            config = msgspec.structs.replace(config, models=(*(config.models if own else ()), *others))
        yield await stack.enter_async_context(_running(config, key))


@contextlib.asynccontextmanager
async def _running(config: Config, key: str) -> AsyncIterator[Client]:
    if config.observability == Observability():
        # Nothing is written beside the test.
        config = msgspec.structs.replace(config, observability=QUIET)
    made: list[gateway.server.gateway.Gateway] = []

    def make(config: Config, routes: Iterable[ApiRoute]) -> gateway.server.gateway.Gateway:
        made.append(gateway.server.gateway.Gateway(config, routes))
        return made[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gateway.server.app.Gateway", make)
        patch.setattr(
            "gateway.server.serve_model.load_tokenizer",
            lambda source, shared: load_tokenizer(None, shared) if source is None else tekken(),
        )
        patch.setattr(
            "gateway.server.serve_model.tokenizer_hash",
            lambda loaded: tekken_hash() if loaded is tekken() else tokenizer_hash(loaded),
        )
        app: Any = gateway.server.app.build(config)
        incoming: asyncio.Queue[Any] = asyncio.Queue()
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message["type"])

        lifespan = asyncio.ensure_future(app({"type": "lifespan", "state": {}}, incoming.get, send))
        incoming.put_nowait({"type": "lifespan.startup"})
        await until(lambda: sent, seconds=BOUND_SECONDS)
        assert sent == ["lifespan.startup.complete"]
        client = Client(app, made[0], key)
        try:
            yield client
            await until(lambda: not client.active, lambda: "a request is still active")
        finally:
            incoming.put_nowait({"type": "lifespan.shutdown"})
            await lifespan
            assert sent[1:] == ["lifespan.shutdown.complete"]
