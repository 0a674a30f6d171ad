import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.store.embedded import EmbeddedStore
from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from protos.errors import Source, StoreUnavailable
from tests.gateway.tenancy.limits.worker import frozen
from tests.loops import seconds_until
from tests.stores import value_of

HSET = Script("return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])")
SET = Script("return redis.call('SET', KEYS[1], ARGV[1])")


@contextlib.asynccontextmanager
async def running(url: str, **settings: float) -> AsyncIterator[Store]:
    store = Store(url, timeout=settings.get("timeout", 10.0), connections=int(settings.get("connections", 16)))
    try:
        yield store
    finally:
        await store.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_reads_and_scripts(store_url: str) -> None:
    async with running(store_url) as store:
        await store.ping()
        assert await value_of(store, "k") is None
        assert await store.hgetall("h") == {}
        assert await store.run(HSET, ["h"], ["field", b"\xff"]) == 1
        assert await store.hgetall("h") == {b"field": b"\xff"}
        assert await store.hgetall_many([]) == []
        assert await store.hgetall_many(["h", "none", "h"]) == [{b"field": b"\xff"}, {}, {b"field": b"\xff"}]


async def test_a_script_that_the_store_forgot_is_sent_again(store_url: str) -> None:
    flush = Script("return redis.call('SCRIPT', 'FLUSH')")

    async with running(store_url) as store:
        script = Script("return ARGV[1]")
        assert await store.run(script, [], ["a"]) == b"a"
        script.sha = "0" * 40
        assert await store.run(script, [], ["b"]) == b"b"
        with pytest.raises(StoreUnavailable):
            await store.run(flush, [], [])


async def test_many_callers_share_few_connections(store_url: str) -> None:
    async with running(store_url, connections=2, timeout=5.0) as store:
        await asyncio.gather(*(store.run(SET, [f"k{i}"], [str(i)]) for i in range(200)))
        assert await asyncio.gather(*(value_of(store, f"k{i}") for i in range(200))) == [b"%d" % i for i in range(200)]


async def test_a_refusal_is_translated_and_its_reason_stays_inside(store_url: str) -> None:
    async with running(store_url) as store:
        await store.run(SET, ["k"], ["v"])
        with pytest.raises(StoreUnavailable) as caught:
            await store.hgetall("k")
        assert caught.value.status == 503
        assert caught.value.source is Source.STORE
        assert "WRONGTYPE" not in str(caught.value)
        assert "WRONGTYPE" in str(caught.value.__cause__)


async def test_no_store_at_all(tmp_path: Path) -> None:
    async def use(store: Store) -> None:
        with pytest.raises(StoreUnavailable):
            await value_of(store, "k")

    async with running(f"unix://{tmp_path}/none.sock") as store:
        await use(store)
    async with running("redis://127.0.0.1:1/0") as store:
        await use(store)


async def test_a_dead_store_fails_at_once_and_a_restarted_one_serves(state_dir: Path) -> None:
    server = EmbeddedStore(state_dir)
    server.start()

    async with running(server.url) as store:
        await asyncio.gather(*(store.run(SET, [f"k{i}"], ["v"]) for i in range(8)))
        server.stop()
        asking = asyncio.ensure_future(value_of(store, "k0"))
        assert await seconds_until(asking.done) < 5.0
        with pytest.raises(StoreUnavailable):
            await asking
        server.start()
        assert await asyncio.gather(*(value_of(store, f"k{i}") for i in range(8))) == [b"v"] * 8
    server.stop()


async def test_a_hung_store_fails_in_time_and_answers_are_never_mixed_up(state_dir: Path) -> None:
    server = EmbeddedStore(state_dir)
    server.start()
    assert server.pid is not None
    pid = server.pid

    try:
        async with running(server.url, connections=4) as store:
            for i in range(4):
                await store.run(SET, [f"k{i}"], [str(i)])
            with frozen(pid, store, seconds=1.0):
                began = time.monotonic()
                asking = asyncio.gather(*(value_of(store, "k0") for _ in range(10)), return_exceptions=True)
                assert await seconds_until(asking.done) < 1.9
                assert all(isinstance(result, StoreUnavailable) for result in asking.result())
                assert time.monotonic() - began > 0.9
                abandoned = asyncio.create_task(value_of(store, "k1"))
                await asyncio.sleep(0.05)
                abandoned.cancel()
                await asyncio.wait([abandoned])
            assert await asyncio.gather(*(value_of(store, f"k{i}") for i in range(4))) == [b"0", b"1", b"2", b"3"]
    finally:
        server.stop()


async def test_a_full_disk_refuses_writes_and_still_reads(state_dir: Path) -> None:
    server = EmbeddedStore(state_dir)
    server.start()
    server.stop()
    (aof,) = (state_dir / "store" / "appendonlydir").glob("*.incr.aof")
    aof.unlink()
    aof.symlink_to("/dev/full")
    server.start()

    async with running(server.url) as store:
        with pytest.raises(StoreUnavailable) as caught:
            for _ in range(50):
                await store.run(SET, ["k"], ["v"])
                await asyncio.sleep(0.05)
        assert "No space left on device" in str(caught.value.__cause__)
        await value_of(store, "k")
    server.stop()
