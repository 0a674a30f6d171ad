"""Questions that share round trips."""

import asyncio
from collections.abc import Sequence

import pytest

from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from gateway.telemetry.batched_reads import BatchedReads
from protos.errors import StoreUnavailable

ECHO = Script("return KEYS[1] .. ARGV[1]")
FAILS = Script("return redis.error_reply('no')")


class Watched(Store):
    """Counts what goes together; is away when a test says so."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.sizes: list[int] = []
        self.away = False

    async def run_many(self, script: Script, calls: Sequence[tuple[str, bytes]]) -> list[bytes | StoreUnavailable]:
        self.sizes.append(len(calls))
        if self.away:
            raise StoreUnavailable
        return await super().run_many(script, calls)


async def test_each_gets_its_own_answer(store_url: str) -> None:
    store = Watched(store_url)
    shared = BatchedReads(store)
    replies = await asyncio.gather(*(shared.run(ECHO, [f"k{n}"], [b"-%d" % n]) for n in range(50)))
    assert replies == [b"k%d-%d" % (n, n) for n in range(50)]
    assert store.sizes == [50]
    assert await shared.run(ECHO, ["k"], ["text"]) == b"ktext"
    assert store.sizes == [50], "what is not of that form goes alone"
    assert await shared.run_many(ECHO, [("a", b"1"), ("b", b"2")]) == [b"a1", b"b2"]
    assert await shared.now() > 0
    await store.aclose()


async def test_failures_are_their_askers(store_url: str) -> None:
    store = Watched(store_url)
    shared = BatchedReads(store)
    found = await asyncio.gather(
        shared.run(ECHO, ["a"], [b"b"]), shared.run(FAILS, ["a"], [b"b"]), return_exceptions=True
    )
    assert found[0] == b"ab"
    assert isinstance(found[1], StoreUnavailable)
    store.away = True
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await shared.run(ECHO, ["a"], [b"b"])
    store.away = False
    leaving = asyncio.create_task(shared.run(ECHO, ["a"], [b"x"]))
    staying = asyncio.create_task(shared.run(ECHO, ["a"], [b"y"]))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying == b"ay"
    await store.aclose()
