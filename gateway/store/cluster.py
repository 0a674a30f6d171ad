"""A client of a Redis or Valkey cluster: maps each key to its node by slot and calls that node directly."""

import asyncio
import random
import time
from collections.abc import Sequence
from typing import Any, Final

from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.exceptions import AskError, ClusterDownError, MovedError, RedisError, SlotNotCoveredError, TryAgainError
from redis.exceptions import ConnectionError as RedisConnectionError

from gateway.config.store.address import StoreAddress
from gateway.store.connections import node_pool
from gateway.store.lua_script import Script
from gateway.store.valkey_server import FAILURES, RENEW_SECONDS, Call, Reply, evaluate_on

#: The part of a call's timeout that one node gets, so that a silent node is recognized as such.
_NODE_PART: Final = 0.8
#: Error replies of a node whose key another node has, or soon will.
_REDIRECTED: Final = (MovedError, AskError, ClusterDownError, TryAgainError)


class Cluster:
    """A cluster client; discovers the nodes at the first call, and again when a node fails or its slots move."""

    def __init__(self, address: StoreAddress, settings: dict[str, Any], *, timeout: float, connections: int) -> None:
        """`settings` are those of connections; `timeout` bounds a call to one node, in seconds; `connections` are kept
        to each node.
        """
        self.client: RedisCluster = RedisCluster(
            startup_nodes=[ClusterNode(host, port) for host, port in address.nodes],
            ssl=address.tls,
            max_connections=connections,
            socket_timeout=_NODE_PART * timeout,
            socket_connect_timeout=_NODE_PART * timeout,
            # Redirections are followed all the same.
            **settings,
        )
        self._address = address
        self._settings = {**settings, "socket_timeout": None, "socket_connect_timeout": _NODE_PART * timeout}
        self._stale = False
        self._renewed = float("-inf")
        self._search: asyncio.Task[None] | None = None

    async def evaluate(self, script: Script, calls: Sequence[Call]) -> list[Reply]:
        """Run the calls in one round trip to each node, all nodes at once. Raises only if no node answers at all."""
        await self._find_nodes()
        parts: dict[ClusterNode | None, list[int]] = {}
        for index, (key, _) in enumerate(calls):
            parts.setdefault(self._node_of(key), []).append(index)
        answers = await asyncio.gather(
            *(self._ask(node, script, [calls[index] for index in part]) for node, part in parts.items())
        )
        replies: list[Reply | None] = [None] * len(calls)
        for part, answer in zip(parts.values(), answers, strict=True):
            for index, reply in zip(part, answer, strict=True):
                replies[index] = reply
        silent = [reply for reply in replies if isinstance(reply, RedisConnectionError)]
        if silent and len(silent) == len(replies):
            raise silent[0]
        return [reply for reply in replies if reply is not None]

    async def subscriber(self) -> Redis:
        # Every node has what was published at any. With another one each time, one that is down is not tried for ever.
        await self._find_nodes()
        node = random.choice(self.client.get_nodes())
        return Redis.from_pool(node_pool(str(node.host), int(node.port), self._settings, tls=self._address.tls))

    def renew(self) -> None:
        self._stale = True
        now = time.monotonic()
        if now - self._renewed < RENEW_SECONDS:
            return
        self._renewed = now
        for node in self.client.get_nodes():
            for connection in node._connections:
                # It is closed by the next call that takes it.
                connection.mark_for_reconnect()  # type: ignore[no-untyped-call]

    async def aclose(self) -> None:
        if self._search is not None:
            self._search.cancel()
            await asyncio.gather(self._search, return_exceptions=True)
        await self.client.aclose()

    async def _find_nodes(self) -> None:
        await self.client.initialize()
        if self._stale and self._search is None:
            # In the background: calls go on with the known nodes, for the first node asked may be the one that hangs.
            self._stale = False
            self._search = asyncio.create_task(self._look_for_nodes())

    async def _look_for_nodes(self) -> None:
        try:
            await self.client.nodes_manager.initialize()
        except (*FAILURES, OSError):
            self._stale = True
        finally:
            self._search = None

    def _node_of(self, key: str) -> ClusterNode | None:
        try:
            return self.client.get_node_from_key(key)
        except SlotNotCoveredError:
            return None

    async def _ask(self, node: ClusterNode | None, script: Script, calls: Sequence[Call]) -> list[Reply]:
        if node is None:
            self._stale = True
            return [SlotNotCoveredError("no node has the key") for _ in calls]
        try:
            connection = node.acquire_connection()
            try:
                await node.disconnect_if_needed(connection)
                replies = await evaluate_on(connection, script, calls)
            finally:
                node.release(connection)
        except (RedisError, OSError) as error:
            self._stale = True
            failure = RedisConnectionError(f"{node.name}: {error}")
            failure.__cause__ = error
            return [failure for _ in calls]
        for index, reply in enumerate(replies):
            if isinstance(reply, _REDIRECTED):
                replies[index] = await self._follow(script, calls[index])
        return replies

    async def _follow(self, script: Script, call: Call) -> Reply:
        """Repeat a call through the client, which follows redirections; a redirected script has not run."""
        self._stale = True
        key, argument = call
        try:
            reply: Reply = await self.client.eval(script.source, 1, key, argument)
        except FAILURES as error:
            return error
        return reply
