"""The connection under a store's client: the `Server` protocol, and its implementation for one server."""

import functools
from collections.abc import Sequence
from typing import Any, Final, Protocol

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ReadOnlyError, RedisClusterException, RedisError, ResponseError

#: A script's key and its argument.
Call = tuple[str, bytes]
#: The cluster client has exceptions that are no RedisError.
FAILURES: Final = (RedisError, RedisClusterException)
Reply = bytes | RedisError | RedisClusterException


class Server(Protocol):
    """The operations that differ between one server and a cluster. Every method raises one of FAILURES or OSError.

    No more calls may be under way at once than it was given connections.
    """

    @property
    def client(self) -> Any:
        """The client for commands that both have."""
        ...

    async def time(self) -> tuple[int, int]:
        """Seconds and microseconds of the server's clock."""
        ...

    async def load(self, source: str) -> str:
        """Load a script and return its SHA-1."""
        ...

    async def evaluate(self, sha: str, calls: Sequence[Call]) -> list[Reply]:
        """Run a loaded script once for each call; the error of a single call is its reply."""
        ...

    async def aclose(self) -> None: ...


class SingleServer:
    """One server, or a proxy that behaves like one."""

    def __init__(self, url: str, *, timeout: float, connections: int) -> None:
        # No retries: a script whose reply was lost may have run, and callers know what may be repeated.
        # The pool itself replaces connections that a restarted store has closed.
        self._pool: ConnectionPool = ConnectionPool.from_url(
            url,
            max_connections=connections + 1,  # and the one at hand
            socket_timeout=None,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
        )
        self._reserved: AbstractConnection | None = None
        self.client: Redis = Redis.from_pool(self._pool)

    async def time(self) -> tuple[int, int]:
        seconds, microseconds = await self.client.time()
        return int(seconds), int(microseconds)

    async def load(self, source: str) -> str:
        return str(await self.client.script_load(source))

    async def evaluate(self, sha: str, calls: Sequence[Call]) -> list[Reply]:
        connection, self._reserved = self._reserved, None
        if connection is None or is_closed(connection):
            if connection is not None:
                await self._pool.release(connection)
            connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
        replies: list[Reply] | None = None
        try:
            replies = await evaluate_on(connection, sha, calls)
        finally:
            # One connection is reserved: borrowing it from the pool costs as much as sending a batch on it.
            if self._reserved is None and replies is not None:
                self._reserved = connection
            else:
                await self._pool.release(connection)
        return replies

    async def aclose(self) -> None:
        if self._reserved is not None:
            await self._reserved.disconnect()
            await self._pool.release(self._reserved)
        await self.client.aclose()


def is_closed(connection: AbstractConnection) -> bool:
    """Whether the server has closed an idle connection, as after a restart."""
    reader = connection._reader
    return reader is None or reader.at_eof()


def packed(sha: str, calls: Sequence[Call]) -> bytes:
    """Encode EVALSHA for each call (RESP, arrays of bulk strings); the client's own encoder handles any value."""
    head, parts = _evalsha(sha), []
    for key, argument in calls:
        name = key.encode()
        parts.append(b"%b$%d\r\n%b\r\n$%d\r\n%b\r\n" % (head, len(name), name, len(argument), argument))
    return b"".join(parts)


@functools.lru_cache
def _evalsha(sha: str) -> bytes:
    """Encode EVALSHA of a script with one key and one argument, as far as the key."""
    return b"*5\r\n$7\r\nEVALSHA\r\n$%d\r\n%b\r\n$1\r\n1\r\n" % (len(sha), sha.encode())


async def evaluate_on(connection: AbstractConnection, sha: str, calls: Sequence[Call]) -> list[Reply]:
    """Run a script for each call on one connection, in one round trip.

    By hand: the client's own pipeline costs twice as much, and this is paid by every request.
    """
    replies: list[Reply] = []
    read_only = False
    try:
        await connection.send_packed_command(packed(sha, calls), check_health=False)
        for _ in calls:
            try:
                replies.append(await connection.read_response())
            except ResponseError as error:
                replies.append(error)
                read_only = read_only or isinstance(error, ReadOnlyError)
    except BaseException:
        # Replies still to come would be taken for those of the next call.
        await connection.disconnect()
        raise
    if read_only:
        # The server was the primary; a new connection may reach the new one.
        await connection.disconnect()
    return replies
