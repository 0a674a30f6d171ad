"""The admin API in the hands of a test: over a real store, every answer held against its own OpenAPI document."""

import asyncio
import contextlib
import importlib
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec

from gateway.admin.admin_app import AdminApp
from gateway.admin.admin_openapi import document
from gateway.admin.live.feed import Feed
from gateway.admin.live.live_reader import LiveReader
from gateway.admin.metrics.metrics_page import MetricsPage
from gateway.admin.operation import Operation, Service
from gateway.admin.operations import OPERATIONS
from gateway.admin.scrape_key import ScrapeKey
from gateway.config.models.price import Price
from gateway.config.settings import Config
from gateway.config.tenants import DEFAULT_TIERS
from gateway.fleets.replica_registry import ReplicaRegistry
from gateway.reshaping.reshape_registry import ReshapeRegistry
from gateway.rollouts.drift.drift_registry import DriftRegistry
from gateway.rollouts.rollout_registry import RolloutRegistry
from gateway.scaling.scaling_registry import ScalingRegistry
from gateway.store.store_client import Store
from gateway.tenancy.limits.limits_batcher import LimitsBatcher
from gateway.tenancy.limits.plan import plan_for
from gateway.tenancy.limits.store_limiter import StoreLimiter
from gateway.tenancy.providers.vault import ProviderVault
from gateway.tenancy.tenants.caller import Caller
from gateway.tenancy.tenants.tenant_registry import Registry
from tests.asgi import Answer, Call

ADMIN_KEY = "sk-penstock-admin-of-this-test"
DOCUMENT = msgspec.json.decode(msgspec.json.encode(document(OPERATIONS)))
#: What no answer may have in it.
INTERNAL = re.compile(rb"Traceback|\.py\b|site-packages|msgspec|unix:|penstock:\{|/tmp/", re.I)

jsonschema: Any = importlib.import_module("jsonschema")


def config_of(**fields: Any) -> Config:
    pool = {"name": "p", "engine": "simulated", "replicas": 1}
    models = [{"name": name, "tokenizer": "t", "context": 9, "pools": [pool]} for name in ("m", "org/m2")]
    # Whatever lies in the folder that the tests run in is none of theirs.
    return msgspec.convert({"models": models, "state": "/nonexistent/state", **fields}, Config)


class Bench:
    """The application and what a client of it needs."""

    def __init__(self, store: Store, config: Config, operations: Sequence[Operation]) -> None:
        scrape_key = None if config.admin.scrape_key is None else ScrapeKey(config.admin.scrape_key)
        self.store = store
        self.registry = Registry(store, config)
        replicas = ReplicaRegistry(store, config)
        self.live = Feed(LiveReader(config, self.registry, store, replicas))
        self.scaling = ScalingRegistry(store, config)
        self.drift = DriftRegistry(store, config)
        self.rollouts = RolloutRegistry(store, config)
        self.page = MetricsPage(config, self.registry, store)
        self.app = AdminApp(
            Service(
                self.registry,
                store,
                replicas,
                ProviderVault(store, config),
                self.live,
                self.page.text,
                self.scaling,
                self.drift,
                self.rollouts,
                ReshapeRegistry(store, config),
            ),
            ADMIN_KEY,
            scrape_key=scrape_key,
            operations=operations,
        )

    def call(self, method: str, path: str, query: str | dict[str, Any] = "", headers: Any = None, **more: str) -> Call:
        """Begin an exchange; its body is still to be put. `more` are further headers."""
        if headers is None:
            headers = [(b"authorization", b"Bearer " + ADMIN_KEY.encode())]
        headers = [*headers, *((name.replace("_", "-").encode(), value.encode()) for name, value in more.items())]
        text = query if isinstance(query, str) else urlencode(query)
        call = Call()
        scope = {"type": "http", "method": method, "path": path, "headers": headers, "query_string": text.encode()}
        call.task = asyncio.ensure_future(self.app(scope, call.incoming.get, call.send))
        return call

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = b"",
        query: str | dict[str, Any] = "",
        headers: Any = None,
        **more: str,
    ) -> Answer:
        """A whole exchange; a body that is no bytes is written as JSON."""
        call = self.call(method, path, query, headers, **more)
        call.put(body if isinstance(body, bytes) else msgspec.json.encode(body))
        answer = await call.answer()
        check(method, path, answer)
        return answer

    async def get(self, path: str, **query: Any) -> Any:
        """The JSON of an answer that must be 200."""
        answer = await self.ask("GET", path, query=query)
        assert answer.status == 200, answer.body
        return answer.json

    async def data(self, path: str, **query: Any) -> list[Any]:
        """The whole list, in pages of at most `limit`."""
        page = await self.get(path, **query)
        found: list[Any] = page["data"]
        while page["has_more"]:
            assert len(page["data"]) == query.get("limit", 100)
            page = await self.get(path, **query, after=page["next"])
            found += page["data"]
        assert page["next"] is None
        return found

    async def refused(self, status: int, param: str | None, method: str, path: str, *args: Any, **more: Any) -> str:
        """The message of an error that must have this status and name this parameter."""
        answer = await self.ask(method, path, *args, **more)
        assert (answer.status, answer.error["param"]) == (status, param), answer.body
        return str(answer.error["message"])

    async def tenant(self, name: str = "acme", **fields: Any) -> Any:
        answer = await self.ask("POST", "/admin/tenants", {"name": name, **fields})
        assert answer.status == 201, answer.body
        return answer.json

    async def key(self, name: str = "k", tenant: str = "default", **fields: Any) -> Any:
        answer = await self.ask("POST", "/admin/keys", {"name": name, "tenant": tenant, **fields})
        assert answer.status == 201, answer.body
        return answer.json

    @contextlib.asynccontextmanager
    async def limiter(self) -> AsyncIterator[StoreLimiter]:
        """What a worker reserves with."""
        limits_batcher = LimitsBatcher(self.store, "worker", timeout=10.0, on_alert=lambda *_: None)
        task = asyncio.create_task(limits_batcher.run())
        try:
            yield StoreLimiter(limits_batcher)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def plan(self, key_id: str, model: str = "m", price: Price | None = None) -> Any:
        """What limits a key's requests."""
        key = await self.registry.key(key_id)
        entry = await self.registry.tenant(key.tenant)
        return plan_for(Caller(key, entry.tenant, DEFAULT_TIERS[0], 0), model, price or Price(input=1, output=2))


@contextlib.asynccontextmanager
async def bench_of(
    url: str, config: Config | None = None, *, timeout: float = 10.0, operations: Sequence[Operation] = OPERATIONS
) -> AsyncIterator[Bench]:
    store = Store(url, timeout=timeout)
    bench = Bench(store, config or config_of(), operations)
    try:
        yield bench
    finally:
        await bench.live.aclose()
        await store.aclose()


def check(method: str, path: str, answer: Answer) -> None:
    """Whether an answer is what the document says of it."""
    assert answer.headers["x-request-id"].startswith("req_")
    assert answer.headers["cache-control"] == "no-store"
    if answer.status >= 400:
        assert answer.error
        assert not INTERNAL.search(answer.body), answer.body
        assert len(answer.body) < 4000
    described = _described(method, path)
    if described is None:
        assert answer.status in (401, 404, 405), answer.body
        return
    response = described["responses"][str(answer.status)]
    media = answer.headers["content-type"]
    content = response["content"][media]
    assert set(response.get("headers", ())) <= set(answer.headers)
    if media == "text/event-stream":
        return
    value = answer.json if media == "application/json" else answer.body.decode()
    jsonschema.Draft202012Validator({**content["schema"], "components": DOCUMENT["components"]}).validate(value)


def _described(method: str, path: str) -> Any:
    method = "get" if method == "HEAD" else method.lower()
    for template, operations in DOCUMENT["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            return operations.get(method)
    return None
