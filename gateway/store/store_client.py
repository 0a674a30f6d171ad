"""Async client of a Redis-protocol store; every call is bounded in time and fails with StoreUnavailable."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, cast

from redis.exceptions import NoScriptError

from gateway.config.settings import Config
from gateway.config.store import is_cluster
from gateway.store.cluster import Cluster
from gateway.store.embedded import embedded_url
from gateway.store.lua_script import Script
from gateway.store.valkey_server import FAILURES, Call, Reply, Server, SingleServer
from protos.errors import StoreUnavailable

_PIPELINE: Final = 500
#: The type of a reply that is no error.
_READ: Final = frozenset((bytes,))


class Store:
    """A client with a small pool of connections. One per event loop; close it with `aclose`."""

    def __init__(self, url: str, *, timeout: float = 1.0, connections: int = 16) -> None:
        """`url` is redis://, rediss:// or unix://, or redis+cluster:// or rediss+cluster:// with some of its nodes.

        `timeout` bounds each call whole, waiting and connecting included; of a cluster, `connections` are each node's.

        Raises:
            ValueError: The address cannot be read.
        """
        self._timeout = timeout
        self._turns = asyncio.Semaphore(connections)
        kind = Cluster if is_cluster(url) else SingleServer
        self._server: Server = kind(url, timeout=timeout, connections=connections)

    async def aclose(self) -> None:
        await self._server.aclose()

    async def ping(self) -> None:
        """Check that the store answers.

        Raises:
            StoreUnavailable: There is none.
        """
        async with self._bounded():
            await self._server.client.ping()

    async def now(self) -> float:
        """Read the store's clock, in seconds since the epoch.

        Raises:
            StoreUnavailable: The store did not answer in time or refused.
        """
        async with self._bounded():
            seconds, microseconds = await self._server.time()
            return seconds + microseconds / 1e6

    async def hgetall(self, key: str) -> dict[bytes, bytes]:
        """Read all fields of a hash; empty if it does not exist.

        Raises:
            StoreUnavailable: The store did not answer in time or refused.
        """
        async with self._bounded():
            return cast("dict[bytes, bytes]", await self._server.client.hgetall(key))

    async def hgetall_many(self, keys: Sequence[str]) -> list[dict[bytes, bytes]]:
        """Read all fields of many hashes, in the order of `keys`; each batch of 500 has the whole timeout.

        Raises:
            StoreUnavailable: The store did not answer in time or refused.
        """
        found: list[dict[bytes, bytes]] = []
        for start in range(0, len(keys), _PIPELINE):
            async with self._bounded(), self._server.client.pipeline(transaction=False) as pipeline:
                for key in keys[start : start + _PIPELINE]:
                    pipeline.hgetall(key)
                found.extend(await pipeline.execute())
        return found

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object:
        """Run a Lua script and return its reply; it may have run even when this raises.

        Raises:
            StoreUnavailable: The store did not answer in time or refused.
        """
        async with self._bounded():
            if script.sha is not None:
                with contextlib.suppress(NoScriptError):
                    return await self._server.client.evalsha(script.sha, len(keys), *keys, *arguments)
            script.sha = await self._server.load(script.source)
            return await self._server.client.evalsha(script.sha, len(keys), *keys, *arguments)

    async def run_many(self, script: Script, calls: Sequence[Call]) -> list[bytes | StoreUnavailable]:
        """Run a Lua script once for each (key, argument) in one round trip; returns each reply or its error.

        Each may have run even when its reply is an error.

        Raises:
            StoreUnavailable: The store did not answer in time; any of them may have run.
        """
        # As in `_bounded`, whose generator costs a fifth of such a call.
        try:
            async with asyncio.timeout(self._timeout), self._turns:
                if script.sha is None:
                    script.sha = await self._server.load(script.source)
                replies: list[Any] = await self._server.evaluate(script.sha, calls)
                if _READ.issuperset(map(type, replies)):
                    return replies
                await self._call_again(script, calls, replies)
        except (*FAILURES, OSError) as error:
            raise StoreUnavailable from self._cause(error)
        return [reply if isinstance(reply, bytes) else _unavailable(reply) for reply in replies]

    async def _call_again(self, script: Script, calls: Sequence[Call], replies: list[Reply]) -> None:
        """Load a script that the server did not have, and replace the replies of the calls that found none."""
        missing = [index for index, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if missing:
            script.sha = await self._server.load(script.source)
            again = await self._server.evaluate(script.sha, [calls[index] for index in missing])
            for index, reply in zip(missing, again, strict=True):
                replies[index] = reply

    @contextlib.asynccontextmanager
    async def _bounded(self) -> AsyncIterator[None]:
        """Bound a call in time and translate its failure to StoreUnavailable."""
        try:
            async with asyncio.timeout(self._timeout), self._turns:
                yield
        except (*FAILURES, OSError) as error:
            raise StoreUnavailable from self._cause(error)

    def _cause(self, error: Exception) -> Exception:
        """Address and reason of a failure, for logs only. TimeoutError is an OSError without a text."""
        return error if str(error) else TimeoutError(f"no answer within {self._timeout:g} s")


def _unavailable(reply: Exception) -> StoreUnavailable:
    error = StoreUnavailable()
    error.__cause__ = reply
    return error


def store_url(config: Config) -> str:
    """Give the `Store` address of a loaded configuration."""
    return embedded_url(config.state_dir) if config.store.embedded else config.store.url
