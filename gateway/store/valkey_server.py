"""The connection under a store's client: the `Server` protocol, and its implementation for one server."""

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import NoScriptError, RedisClusterException, RedisError, ResponseError

from gateway.store.lua_script import Script

#: A script's key and its argument.
Call = tuple[str, bytes]
#: The cluster client has exceptions that are no RedisError.
FAILURES: Final = (RedisError, RedisClusterException)
Reply = bytes | RedisError | RedisClusterException
#: Connections are renewed at most so often, in seconds: a server that refuses for long is not flooded with new ones.
RENEW_SECONDS: Final = 0.5


class Server(Protocol):
    """The operations that differ between one server and a cluster. `evaluate` raises one of FAILURES or OSError.

    No more calls may be under way at once than it was given connections.
    """

    @property
    def client(self) -> Any:
        """The client for commands that both have; it may be another one at the next call."""
        ...

    async def evaluate(self, script: Script, calls: Sequence[Call]) -> list[Reply]:
        """Run a script once for each call; the error of a single call is its reply."""
        ...

    async def subscriber(self) -> Redis:
        """Make a client for one subscription, which takes none of the other calls' connections; its user closes it.

        Raises one of FAILURES or OSError.
        """
        ...

    def renew(self) -> None:
        """Let later calls use new connections: the servers at the end of those of now have said that they are the wrong
        ones, or say nothing. Calls that are under way keep theirs.
        """
        ...

    async def aclose(self) -> None: ...


class SingleServer:
    """One server, or a proxy that behaves like one."""

    def __init__(self, new_pool: Callable[[], ConnectionPool], *, clock: Callable[[], float] = time.monotonic) -> None:
        """`new_pool` makes a pool for one call more than may be under way at once."""
        self._new_pool = new_pool
        self._clock = clock
        self._pool = new_pool()
        self._renewed = float("-inf")
        self._reserved: AbstractConnection | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self.client: Redis = Redis.from_pool(self._pool)

    async def evaluate(self, script: Script, calls: Sequence[Call]) -> list[Reply]:
        pool = self._pool
        connection, self._reserved = self._reserved, None
        if connection is None or is_closed(connection):
            if connection is not None:
                await pool.release(connection)
            connection = await pool.get_connection()  # type: ignore[no-untyped-call]
        replies: list[Reply] | None = None
        try:
            replies = await evaluate_on(connection, script, calls)
        finally:
            # One connection is reserved: borrowing it from the pool costs as much as sending a batch on it.
            if self._reserved is None and replies is not None and pool is self._pool:
                self._reserved = connection
            else:
                await pool.release(connection)
        return replies

    async def subscriber(self) -> Redis:
        return Redis.from_pool(self._new_pool())

    def renew(self) -> None:
        now = self._clock()
        if now - self._renewed < RENEW_SECONDS:
            return
        self._renewed = now
        # A new pool at once, rather than closing those in the old one one by one: a call could take one meanwhile.
        old, self._pool = self._pool, self._new_pool()
        reserved, self._reserved = self._reserved, None
        self.client = Redis.from_pool(self._pool)
        closing = asyncio.create_task(_close_idle(old, reserved))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        if self._closing:
            await asyncio.wait(self._closing)
        if self._reserved is not None:
            await self._reserved.disconnect()
            await self._pool.release(self._reserved)
        await self.client.aclose()


async def _close_idle(pool: ConnectionPool, reserved: AbstractConnection | None) -> None:
    """Close the connections that nobody uses, and the others once they are given back."""
    await pool.update_active_connections_for_reconnect()  # type: ignore[no-untyped-call]
    if reserved is not None:
        await pool.release(reserved)
    with contextlib.suppress(*FAILURES, OSError):
        await pool.disconnect(inuse_connections=False)


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


async def evaluate_on(connection: AbstractConnection, script: Script, calls: Sequence[Call]) -> list[Reply]:
    """Run a script for each call on one connection, in one round trip; a second one follows if it has no such script.

    By hand: the client's own pipeline costs twice as much, and this is paid by every request.
    """
    replies: list[Reply] = []
    unknown = False
    try:
        await connection.send_packed_command(packed(script.sha, calls), check_health=False)
        for _ in calls:
            try:
                replies.append(await connection.read_response())
            except ResponseError as error:
                replies.append(error)
                unknown = unknown or isinstance(error, NoScriptError)
        if unknown:
            await _send_script(connection, script, calls, replies)
    except BaseException:
        # Replies still to come would be taken for those of the next call.
        await connection.disconnect()
        raise
    return replies


async def _send_script(
    connection: AbstractConnection, script: Script, calls: Sequence[Call], replies: list[Reply]
) -> None:
    """Repeat the calls that found no script, the first of them with its source: each server has scripts of its own."""
    missing = [index for index, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
    key, argument = calls[missing[0]]
    commands = connection.pack_command("EVAL", script.source, 1, key, argument)
    commands.append(packed(script.sha, [calls[index] for index in missing[1:]]))
    await connection.send_packed_command(commands, check_health=False)
    for index in missing:
        try:
            replies[index] = await connection.read_response()
        except ResponseError as error:
            replies[index] = error
