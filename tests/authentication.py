"""An authenticator in the hands of a test: over the real store, under a clock that stands still until it is moved."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest

from gateway.config.settings import Config
from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from gateway.tenancy.auth.authenticator import Authenticator
from gateway.tenancy.auth.key_store import PREFIX, ApiKey, KeyRequest, KeyStore
from gateway.tenancy.tenants.tenant_directory import Directory
from gateway.tenancy.tenants.tenant_registry import Registry
from protos.errors import AuthenticationFailed, StoreUnavailable

LOOKS_RIGHT = PREFIX + "A" * 43


def config_of(**fields: Any) -> Config:
    pool = {"name": "p", "engine": "simulated", "replicas": 1}
    model = {"name": "m", "tokenizer": "t", "context": 9, "pools": [pool]}
    return msgspec.convert({"models": [model], **fields}, Config)


class Watched:
    """The real store, with its record reads counted and, while `gate` is closed, their answers held back.

    `ahead` is what its clock shows beyond the real one; `silent` has the names of methods that get no answer.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.reads = 0
        self.calls = 0
        self.ahead = 0.0
        self.silent: set[str] = set()
        self.answered = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def hgetall(self, key: str) -> dict[bytes, bytes]:
        self._call("hgetall")
        return await self.store.hgetall(key)

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object:
        self._call("run")
        found = await self.store.run(script, keys, arguments)
        if isinstance(found, list):
            found[0] = b"%.6f" % (float(found[0]) + self.ahead)
        if any(":key:" in key for key in keys):
            self.reads += 1
            self.answered.set()
            await self.gate.wait()
        return found

    def _call(self, method: str) -> None:
        self.calls += 1
        if method in self.silent:
            raise StoreUnavailable("silent")


class Bench:
    """An authenticator over a real store, under a clock that stands still until a test moves it.

    The store's clock is the real one; the few milliseconds that a test takes move it by next to nothing.
    """

    def __init__(self, store: Store, cache_size: int, config: Config | None = None) -> None:
        self.now = 100.0
        self.config = config or config_of()
        self.watched = Watched(store)
        self.registry = Registry(store, self.config)
        self.keys = KeyStore(store)
        self.cache_size = cache_size
        self.auths: list[Authenticator] = []
        self.auth = self.another()

    def another(self) -> Authenticator:
        """The authenticator of one more worker."""
        directory = Directory(self.watched, self.config)
        auth = Authenticator(KeyStore(self.watched), directory, cache_size=self.cache_size, clock=lambda: self.now)
        self.auths.append(auth)
        return auth

    async def make(self, name: str = "k", **fields: Any) -> tuple[ApiKey, bytes]:
        """A new key and the header that names it."""
        key, secret = await self.keys.create(KeyRequest(name=name, **fields))
        return key, bearer(secret)

    async def reads_of(self, header: bytes) -> int:
        """How many record reads one check costs, whatever comes of it."""
        before = self.watched.reads
        with contextlib.suppress(AuthenticationFailed):
            await self.auth.authenticate(header)
        return self.watched.reads - before


@contextlib.asynccontextmanager
async def bench(url: str, cache_size: int = 100, config: Config | None = None) -> AsyncIterator[Bench]:
    store = Store(url, timeout=10.0)
    made = Bench(store, cache_size, config)
    try:
        yield made
    finally:
        for auth in made.auths:
            await auth.aclose()
        await store.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}


def bearer(secret: str) -> bytes:
    return b"Bearer " + secret.encode()


async def refusal(auth: Authenticator, header: bytes | None) -> str:
    with pytest.raises(AuthenticationFailed) as caught:
        await auth.authenticate(header)
    assert caught.value.status == 401
    assert caught.value.code == "invalid_api_key"
    return caught.value.message
