"""Async access to a Redis-protocol store; every failure comes out as StoreUnavailable, within a bounded time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Final, cast

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from gateway.config import Config
from gateway.store.embedded import embedded_url
from gateway.store.script import Script
from protos.errors import StoreUnavailable

_PIPELINE: Final = 500


class Store:
    """A client with a small pool of connections. One per event loop; close it with `aclose`."""

    def __init__(self, url: str, *, timeout: float = 1.0, connections: int = 16) -> None:
        """`url` is redis://, rediss:// or unix://; `timeout` bounds each call whole, waiting and connecting included.

        Raises:
            ValueError: The address cannot be read.
        """
        self._timeout = timeout
        # No retries: a script whose answer was lost may have run, and callers above know what may be repeated.
        # The pool itself replaces connections that a restarted store has closed.
        pool: BlockingConnectionPool = BlockingConnectionPool.from_url(
            url,
            max_connections=connections,
            timeout=timeout,
            socket_timeout=None,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
        )
        self._redis: Redis = Redis.from_pool(pool)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._redis.aclose()

    async def ping(self) -> None:
        """Ask for a sign of life.

        Raises:
            StoreUnavailable: There is none.
        """
        async with self._bounded():
            await self._redis.ping()

    async def get(self, key: str) -> bytes | None:
        """The value of a key, or None.

        Raises:
            StoreUnavailable: The store did not answer in time or refused.
        """
        async with self._bounded():
            return cast("bytes | None", await self._redis.get(key))

    async def hgetall(self, key: str) -> dict[bytes, bytes]:
        """All fields of a hash; empty where there is none.

        Raises:
            StoreUnavailable: The store did not answer in time or refused.
        """
        async with self._bounded():
            return cast("dict[bytes, bytes]", await self._redis.hgetall(key))

    async def hgetall_many(self, keys: Sequence[str]) -> list[dict[bytes, bytes]]:
        """All fields of many hashes, in the order of `keys`; each batch of 500 has the whole timeout.

        Raises:
            StoreUnavailable: The store did not answer in time or refused.
        """
        found: list[dict[bytes, bytes]] = []
        for start in range(0, len(keys), _PIPELINE):
            async with self._bounded(), self._redis.pipeline(transaction=False) as pipeline:
                for key in keys[start : start + _PIPELINE]:
                    pipeline.hgetall(key)
                found.extend(await pipeline.execute())
        return found

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object:
        """Run a Lua script and give its reply; it may have run even when this raises.

        Raises:
            StoreUnavailable: The store did not answer in time or refused.
        """
        async with self._bounded():
            if script.sha is not None:
                with contextlib.suppress(NoScriptError):
                    return await self._redis.evalsha(script.sha, len(keys), *keys, *arguments)
            script.sha = await self._redis.script_load(script.source)
            return await self._redis.evalsha(script.sha, len(keys), *keys, *arguments)

    @contextlib.asynccontextmanager
    async def _bounded(self) -> AsyncIterator[None]:
        """Bound a call in time, and translate its failure for everyone above this package."""
        try:
            async with asyncio.timeout(self._timeout):
                yield
        except (RedisError, OSError) as error:
            # TimeoutError is an OSError. The cause holds the address and the reason, for logs only.
            raise StoreUnavailable("The gateway's store did not answer. Try again shortly.") from error


def store_url(config: Config) -> str:
    """Where a loaded configuration's store is, for `Store`."""
    return embedded_url(config.state_dir) if config.store.embedded else config.store.url
