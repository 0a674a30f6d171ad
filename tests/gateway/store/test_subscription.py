"""Messages on a channel, through every kind of store."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from protos.errors import StoreUnavailable
from tests.cluster import cluster
from tests.loops import until
from tests.stores import running
from tests.valkeys import proxy_to, sentinels, valkeys

PUBLISH = Script("redis.call('PUBLISH', 'channel', ARGV[1]) return 1")


@contextlib.asynccontextmanager
async def hearing(store: Store) -> AsyncIterator[list[int]]:
    """What is heard: an entry for the beginning, and for each message."""
    heard: list[int] = []
    task = asyncio.create_task(store.hear("channel", lambda: heard.append(1)))
    try:
        await until(lambda: heard)
        yield heard
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, StoreUnavailable):
            await task


async def test_a_cluster_tells_all_its_nodes() -> None:
    with cluster(3) as nodes:
        async with running(nodes.url) as store, contextlib.AsyncExitStack() as stack:
            all_heard = [await stack.enter_async_context(hearing(store)) for _ in range(8)]
            for key in ("a", "b", "c"):
                await store.run(PUBLISH, [key], ["x"])
            await until(lambda: all(len(heard) == 4 for heard in all_heard))


async def test_what_the_new_primary_publishes_is_heard_at_the_old_one(tmp_path: Path) -> None:
    with valkeys(tmp_path, 2) as (old, new), sentinels(tmp_path, 1, old) as (watcher,):
        url = f"redis+sentinel://127.0.0.1:{watcher.port}/main"
        async with running(url) as store, hearing(store) as heard:
            await store.run(PUBLISH, ["k"], ["x"])
            await until(lambda: len(heard) == 2)
            new.follow(None)
            old.follow(new)
            with new.client() as client:
                # A replica that is being copied to counts as connected, and hears nothing yet.
                await until(lambda: client.info("replication").get("slave0", {}).get("state") == "online")
                client.publish("channel", "y")
            await until(lambda: len(heard) == 3)


async def test_a_server_that_is_lost_is_said_to_be_lost(tmp_path: Path) -> None:
    with valkeys(tmp_path, 1) as (server,):
        async with proxy_to(server.port) as proxy, running(proxy.url) as store:
            heard: list[int] = []
            task = asyncio.create_task(store.hear("channel", lambda: heard.append(1)))
            await until(lambda: heard)
            server.stop()
            with pytest.raises(StoreUnavailable):
                await task


async def test_subscriptions_take_no_connection_from_calls(store_url: str) -> None:
    store = Store(store_url, timeout=10.0, connections=1)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(hearing(store))
        await asyncio.gather(*(store.now() for _ in range(8)))
    await store.aclose()
