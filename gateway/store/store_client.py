"""Async client of a Redis-protocol store; every call is bounded in time and fails with StoreUnavailable."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar, cast

from redis.exceptions import NoScriptError
from redis.exceptions import TimeoutError as RedisTimeoutError

from gateway.config.store.address import StoreAddress, parse_address
from gateway.store.cluster import Cluster
from gateway.store.connections import Login, connection_settings, new_pool
from gateway.store.elsewhere import means_elsewhere
from gateway.store.lua_script import Script
from gateway.store.sentinels import SentinelServer
from gateway.store.store_failure import explained, silent
from gateway.store.subscription import hear
from gateway.store.valkey_server import FAILURES, Call, Reply, Server, SingleServer
from protos.errors import StoreUnavailable

_PIPELINE: Final = 500
#: The type of a reply that is no error.
_READ: Final = frozenset((bytes,))
#: It lies in a cluster's node of keys and tenants, without which no tenant is served.
_WRITTEN: Final = "penstock:{keys}:written"
_WRITE: Final = Script("return redis.call('SET', KEYS[1], '', 'PX', 60000)")
_TIME: Final = Script("return redis.call('TIME')")

T = TypeVar("T")


class Store:
    """A client with a small pool of connections. One per event loop; close it with `aclose`."""

    def __init__(self, url: str, *, timeout: float = 1.0, connections: int = 16, login: Login | None = None) -> None:
        """`url` is an address as `gateway.config.store.address` knows them.

        `timeout` bounds each call whole, waiting and connecting included; of a cluster, `connections` are each node's.
        `login` gives user name and password anew for each connection, where the address has a password.

        Raises:
            ValueError: The address cannot be read.
        """
        self._timeout = timeout
        self._turns = asyncio.Semaphore(connections)
        self._address = parse_address(url)
        self._server = _server(self._address, login, timeout, connections)

    async def aclose(self) -> None:
        await self._server.aclose()

    async def ping(self) -> None:
        """Check that the store runs scripts and takes writes, as limits and keys need it.

        Raises:
            StoreUnavailable: It does not.
        """
        await self.run(_WRITE, [_WRITTEN], [])

    async def now(self) -> float:
        """Read the store's clock, in seconds since the epoch.

        Raises:
            StoreUnavailable: The store did not answer in time or refused.
        """
        seconds, microseconds = cast("tuple[bytes, bytes]", await self.run(_TIME, [_WRITTEN], []))
        return int(seconds) + int(microseconds) / 1e6

    async def hgetall(self, key: str) -> dict[bytes, bytes]:
        """Read all fields of a hash; empty if it does not exist.

        Raises:
            StoreUnavailable: The store did not answer in time or refused.
        """
        return cast("dict[bytes, bytes]", await self._ask(lambda: self._server.client.hgetall(key)))

    async def hgetall_many(self, keys: Sequence[str]) -> list[dict[bytes, bytes]]:
        """Read all fields of many hashes, in the order of `keys`; each batch of 500 has the whole timeout.

        Raises:
            StoreUnavailable: The store did not answer in time or refused.
        """
        found: list[dict[bytes, bytes]] = []
        for start in range(0, len(keys), _PIPELINE):
            found.extend(await self._ask(partial(self._read, keys[start : start + _PIPELINE])))
        return found

    async def hear(self, channel: str, heard: Callable[[], None]) -> None:
        """Call `heard` for each message that is published on a channel, and whenever some may have been missed.

        It returns when the store is lost; messages are lost meanwhile.

        Raises:
            StoreUnavailable: The store did not answer in time, refused, or is lost.
        """
        try:
            await hear(self._server, channel, self._timeout, heard)
        except (*FAILURES, OSError) as error:
            raise StoreUnavailable from self._cause(error)

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object:
        """Run a Lua script and return its reply; it may have run even when this raises.

        Raises:
            StoreUnavailable: The store did not answer in time or refused.
        """
        return await self._ask(lambda: self._evaluate(script, (len(keys), *keys, *arguments)))

    async def run_many(self, script: Script, calls: Sequence[Call]) -> list[bytes | StoreUnavailable]:
        """Run a Lua script once for each (key, argument) in one round trip; returns each reply or its error.

        Each may have run even when its reply is an error.

        Raises:
            StoreUnavailable: The store did not answer in time; any of them may have run.
        """
        try:
            async with asyncio.timeout(self._timeout), self._turns:
                try:
                    replies: list[Any] = await self._server.evaluate(script, calls)
                    if _READ.issuperset(map(type, replies)):
                        return replies
                except FAILURES as error:
                    if not means_elsewhere(error):
                        raise
                    replies = [error] * len(calls)
                await self._call_again(script, calls, replies)
        except (*FAILURES, OSError) as error:
            raise StoreUnavailable from self._cause(error)
        return [reply if isinstance(reply, bytes) else self._unavailable(reply) for reply in replies]

    async def _call_again(self, script: Script, calls: Sequence[Call], replies: list[Reply]) -> None:
        """Replace the replies of the calls that another connection may serve."""
        refused = [index for index, reply in enumerate(replies) if _is_refused(reply)]
        if refused:
            self._server.renew()
            again = await self._server.evaluate(script, [calls[index] for index in refused])
            for index, reply in zip(refused, again, strict=True):
                replies[index] = reply

    async def _evaluate(self, script: Script, arguments: Sequence[Any]) -> object:
        try:
            return await self._server.client.evalsha(script.sha, *arguments)
        except NoScriptError:
            # Whichever server gets this one has the script from now on.
            return await self._server.client.eval(script.source, *arguments)

    async def _read(self, keys: Sequence[str]) -> list[dict[bytes, bytes]]:
        async with self._server.client.pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.hgetall(key)
            return cast("list[dict[bytes, bytes]]", await pipeline.execute())

    async def _ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call within the timeout, twice if the first server says that it is the wrong one. Raises StoreUnavailable."""
        try:
            async with asyncio.timeout(self._timeout), self._turns:
                try:
                    return await call()
                except FAILURES as error:
                    if not means_elsewhere(error):
                        raise
                self._server.renew()
                return await call()
        except (*FAILURES, OSError) as error:
            raise StoreUnavailable from self._cause(error)

    def _cause(self, error: Exception) -> Exception:
        """The reason of a failure, for logs only."""
        if isinstance(error, TimeoutError):
            # A server that has lost its network closes no connection.
            self._server.renew()
        if not str(error) or isinstance(error, RedisTimeoutError):
            return silent(self._address, self._timeout)
        return explained(error, self._address)

    def _unavailable(self, reply: Exception) -> StoreUnavailable:
        error = StoreUnavailable()
        error.__cause__ = self._cause(reply)
        return error


def _is_refused(reply: Reply) -> bool:
    return not isinstance(reply, bytes) and means_elsewhere(reply)


def _server(address: StoreAddress, login: Login | None, timeout: float, connections: int) -> Server:
    settings = connection_settings(address, login)
    if address.kind == "cluster":
        return Cluster(address, settings, timeout=timeout, connections=connections)
    settings |= {
        "db": address.database,
        "max_connections": connections + 1,  # and the one at hand
        "socket_timeout": None,
        "socket_connect_timeout": timeout,
    }
    if address.kind == "sentinel":
        return SentinelServer(address, settings, timeout=timeout)
    return SingleServer(partial(new_pool, address, settings))
