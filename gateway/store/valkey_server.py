"""What a store's client stands on: one server, or the nodes of a cluster (gateway/store/cluster.py)."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ReadOnlyError, RedisClusterException, RedisError, ResponseError

#: A script's key and its argument.
Call = tuple[str, bytes]
#: A cluster's client has exceptions outside of the tree of the others.
FAILURES: Final = (RedisError, RedisClusterException)
Reply = bytes | RedisError | RedisClusterException


class Server(Protocol):
    """What one server and a cluster do differently. Every method raises one of FAILURES or OSError.

    No more calls may be under way at once than it was given connections.
    """

    @property
    def client(self) -> Any:
        """The commands that both have."""
        ...

    async def time(self) -> tuple[int, int]:
        """Seconds and microseconds of its clock."""
        ...

    async def load(self, source: str) -> str:
        """Make a script known and give its digest."""
        ...

    async def evaluate(self, sha: str, calls: Sequence[Call]) -> list[Reply]:
        """Run a known script once for each call; an error that one of them alone has is its reply."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


class SingleServer:
    """One server, or whatever behaves like one."""

    def __init__(self, url: str, *, timeout: float, connections: int) -> None:
        # No retries: a script whose answer was lost may have run, and callers above know what may be repeated.
        # The pool itself replaces connections that a restarted store has closed.
        self._pool: ConnectionPool = ConnectionPool.from_url(
            url,
            max_connections=connections + 1,  # and the one at hand
            socket_timeout=None,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
        )
        self._kept: AbstractConnection | None = None
        self.client: Redis = Redis.from_pool(self._pool)

    async def time(self) -> tuple[int, int]:
        """Seconds and microseconds of its clock."""
        seconds, microseconds = await self.client.time()
        return int(seconds), int(microseconds)

    async def load(self, source: str) -> str:
        """Make a script known and give its digest."""
        return str(await self.client.script_load(source))

    async def evaluate(self, sha: str, calls: Sequence[Call]) -> list[Reply]:
        """In one round trip."""
        connection, self._kept = self._kept, None
        if connection is None or is_closed(connection):
            if connection is not None:
                await self._pool.release(connection)
            connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
        replies: list[Reply] | None = None
        try:
            replies = await evaluate_on(connection, sha, calls)
        finally:
            # One is kept at hand: borrowing it from the pool costs as much as sending a batch on it.
            if self._kept is None and replies is not None:
                self._kept = connection
            else:
                await self._pool.release(connection)
        return replies

    async def aclose(self) -> None:
        """Close all connections."""
        if self._kept is not None:
            await self._kept.disconnect()
            await self._pool.release(self._kept)
        await self.client.aclose()


def is_closed(connection: AbstractConnection) -> bool:
    """Whether the server has closed a connection that nothing is expected on, as after a restart."""
    reader = connection._reader
    return reader is None or reader.at_eof()


def packed(sha: str, calls: Sequence[Call]) -> bytes:
    """EVALSHA for each call as the protocol has it (RESP, arrays of bulk strings); the client's own packs any value."""
    head = b"*5\r\n$7\r\nEVALSHA\r\n$%d\r\n%b\r\n$1\r\n1\r\n" % (len(sha), sha.encode())
    return b"".join(
        b"%b$%d\r\n%b\r\n$%d\r\n%b\r\n" % (head, len(name), name, len(argument), argument)
        for name, argument in ((key.encode(), argument) for key, argument in calls)
    )


async def evaluate_on(connection: AbstractConnection, sha: str, calls: Sequence[Call]) -> list[Reply]:
    """Run a script for each call on one connection, in one round trip.

    By hand: the client's own pipeline costs twice as much, and this is paid by every request.
    """
    replies: list[Reply] = []
    try:
        await connection.send_packed_command(packed(sha, calls), check_health=False)
        for _ in calls:
            try:
                replies.append(await connection.read_response())
            except ResponseError as error:
                replies.append(error)
    except BaseException:
        # What is still to come on it would be taken for the answer to another question.
        await connection.disconnect()
        raise
    if any(isinstance(reply, ReadOnlyError) for reply in replies):
        # It was the primary; a new connection may lead to the one that is now.
        await connection.disconnect()
    return replies
