"""Many calls of a script in one round trip, on a single store and on a cluster."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis

from gateway.store.embedded import EmbeddedStore
from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from protos.errors import StoreUnavailable
from tests.cluster import Cluster, cluster
from tests.gateway.tenancy.limits.worker import frozen
from tests.loops import seconds_until
from tests.stores import value_of

ECHO = "return ARGV[1]"
PUT = "redis.call('SET', KEYS[1], ARGV[1]) return ARGV[1]"


@contextlib.asynccontextmanager
async def running(url: str, *, timeout: float = 10.0, connections: int = 16) -> AsyncIterator[Store]:
    store = Store(url, timeout=timeout, connections=connections)
    try:
        yield store
    finally:
        await store.aclose()


def forget(url: str) -> None:
    """Make the store forget its scripts."""
    address = url.replace("redis+cluster", "redis")
    with redis.Redis.from_url(address) as client:
        client.script_flush()


def calls_of(url: str) -> int:
    """How many EVALSHA the store has run."""
    with redis.Redis.from_url(url.replace("redis+cluster", "redis")) as client:
        stats = client.info("commandstats")
    assert isinstance(stats, dict)
    return int(stats.get("cmdstat_evalsha", {"calls": 0})["calls"])


async def test_replies_come_in_order(any_store_url: str) -> None:
    async with running(any_store_url) as store:
        script = Script(PUT)
        assert await store.run_many(script, []) == []
        calls = [(f"k{i}", b"%d" % i) for i in range(300)]
        assert await store.run_many(script, calls) == [argument for _, argument in calls]
        assert await asyncio.gather(*(value_of(store, key) for key, _ in calls)) == [argument for _, argument in calls]


async def test_reads_and_scripts_of_both_kinds(any_store_url: str) -> None:
    async with running(any_store_url) as store:
        await store.ping()
        assert await value_of(store, "k") is None
        hset = Script("return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])")
        for name in ("h1", "h2", "h3"):
            assert await store.run(hset, [name], ["field", b"\xff" + name.encode()]) == 1
        assert await store.hgetall("h1") == {b"field": b"\xffh1"}
        assert await store.hgetall_many([]) == []
        found = await store.hgetall_many(["h3", "none", "h1", "h2"])
        assert found == [{b"field": b"\xffh3"}, {}, {b"field": b"\xffh1"}, {b"field": b"\xffh2"}]
        assert abs(await store.now() - time.time()) < 5


async def test_one_failure_is_that_calls_alone_and_its_reason_stays_inside(any_store_url: str) -> None:
    async with running(any_store_url) as store:
        script = Script("if ARGV[1] == 'bad' then return redis.error_reply('ERR secret') end return ARGV[1]")
        one, failed, two = await store.run_many(script, [("a", b"1"), ("b", b"bad"), ("c", b"2")])
        assert (one, two) == (b"1", b"2")
        assert isinstance(failed, StoreUnavailable)
        assert "secret" not in failed.message
        assert "secret" in str(failed.__cause__)


async def test_forgotten_scripts_are_sent_again(any_store_url: str) -> None:
    async with running(any_store_url) as store:
        script = Script(ECHO)
        assert await store.run_many(script, [("a", b"1")]) == [b"1"]
        forget(any_store_url)
        assert await store.run_many(script, [("a", b"1"), ("b", b"2")]) == [b"1", b"2"]
        forget(any_store_url)
        assert await store.run(script, ["a"], ["3"]) == b"3"
        forget(any_store_url)
        before = calls_of(any_store_url)
        results = await asyncio.gather(*(store.run_many(script, [("a", b"4"), ("b", b"5")]) for _ in range(20)))
        assert results == [[b"4", b"5"]] * 20
        # Those that were told NOSCRIPT have not run; nothing ran twice.
        assert calls_of(any_store_url) - before >= 40


async def test_a_script_without_keys(any_store_url: str) -> None:
    async with running(any_store_url) as store:
        script = Script(ECHO)
        assert await store.run(script, [], ["a"]) == b"a"
        script.sha = "0" * 40
        assert await store.run(script, [], ["b"]) == b"b"


async def test_many_callers_share_few_connections(any_store_url: str) -> None:
    async with running(any_store_url, connections=2, timeout=5.0) as store:
        put = Script(PUT)
        await asyncio.gather(*(store.run(put, [f"k{i}"], [str(i)]) for i in range(100)))
        many = await asyncio.gather(*(store.run_many(put, [(f"k{i}", b"%d" % i)]) for i in range(100)))
        assert many == [[b"%d" % i] for i in range(100)]
        assert await asyncio.gather(*(value_of(store, f"k{i}") for i in range(100))) == [b"%d" % i for i in range(100)]
        with redis.Redis.from_url(any_store_url.replace("redis+cluster", "redis")) as client:
            # Two, and this one; a cluster's client leaves one more where it asked for the nodes.
            assert len(client.client_list()) <= 4


async def test_a_cancelled_call_mixes_no_answers_up(any_store_url: str) -> None:
    async with running(any_store_url, connections=1, timeout=5.0) as store:
        slow = Script("for i = 1, 300000 do redis.call('PING') end return ARGV[1]")
        echo = Script(ECHO)
        await store.run_many(echo, [("a", b"0")])
        abandoned = asyncio.create_task(store.run_many(slow, [("a", b"slow")]))
        await asyncio.sleep(0.02)
        abandoned.cancel()
        await asyncio.wait([abandoned])
        assert await asyncio.gather(*(store.run_many(echo, [("a", b"%d" % i)]) for i in range(5))) == [
            [b"%d" % i] for i in range(5)
        ]


async def test_no_store_at_all(tmp_path: Path) -> None:
    for url in (f"unix://{tmp_path}/none.sock", "redis+cluster://127.0.0.1:1,127.0.0.1:2"):
        async with running(url, timeout=2.0) as store:
            for attempt in (
                store.run_many(Script(ECHO), [("a", b"1")]),
                value_of(store, "k"),
                store.now(),
                store.ping(),
            ):
                asking = asyncio.ensure_future(attempt)
                assert await seconds_until(asking.done) < 3.9
                with pytest.raises(StoreUnavailable):
                    await asking


async def test_a_hung_store_fails_in_time_and_then_serves(state_dir: Path) -> None:
    server = EmbeddedStore(state_dir)
    server.start()
    pid = server.pid
    assert pid is not None

    try:
        async with running(server.url) as store:
            script = Script(ECHO)
            await store.run_many(script, [("a", b"1")])
            with frozen(pid, store, seconds=1.0):
                began = time.monotonic()
                asking = asyncio.ensure_future(store.run_many(script, [("a", b"2")]))
                assert await seconds_until(asking.done) < 1.9
                with pytest.raises(StoreUnavailable):
                    await asking
                assert time.monotonic() - began > 0.9
            assert await store.run_many(script, [("a", b"3")]) == [b"3"]
    finally:
        server.stop()


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[Cluster]:
    with cluster(3) as made:
        yield made


def keys_by_node(made: Cluster) -> list[str]:
    """A key of each node."""
    with made.client(0) as client:
        share = -(-16384 // len(made.ports))
        found: dict[int, str] = {}
        for number in range(1000):
            slot = int(client.execute_command("CLUSTER", "KEYSLOT", f"k{number}"))
            found.setdefault(slot // share, f"k{number}")
    return [found[node] for node in range(len(made.ports))]


async def test_each_node_is_asked_for_its_keys(three_nodes: Cluster) -> None:
    async def use(store: Store) -> None:
        put = Script(PUT)
        calls = [(key, key.encode()) for key in keys_by_node(three_nodes) * 3]
        assert await store.run_many(put, calls) == [value for _, value in calls]
        for key, value in calls:
            assert await value_of(store, key) == value

    async with running(three_nodes.url) as store:
        await use(store)
    async with running(three_nodes.url.rpartition(",")[2].join(["redis+cluster://", ""])) as store:
        await use(store)


async def test_a_moved_slot_is_found_again(three_nodes: Cluster) -> None:
    key = keys_by_node(three_nodes)[0]

    try:
        async with running(three_nodes.url) as store:
            put = Script(PUT)
            assert await store.run_many(put, [(key, b"before")]) == [b"before"]
            _move(three_nodes, key, 0, 1)
            others = [(name, b"x") for name in keys_by_node(three_nodes)[1:]]
            assert await store.run_many(put, [(key, b"after"), *others]) == [b"after", b"x", b"x"]
            assert await store.run_many(put, [(key, b"later")]) == [b"later"]
            assert await value_of(store, key) == b"later"
    finally:
        _move(three_nodes, key, 1, 0)


def _move(made: Cluster, key: str, source: int, target: int) -> None:
    """Hand an emptied slot from one node to another."""
    with made.client(source) as left, made.client(target) as right:
        slot = left.execute_command("CLUSTER", "KEYSLOT", key)
        left.delete(key)
        name = right.execute_command("CLUSTER", "MYID")
        # The newest epoch's word counts: what the one that had the slot has said meanwhile takes it back otherwise.
        right.execute_command("CLUSTER", "BUMPEPOCH")
        for node in sorted(range(len(made.ports)), key=target.__ne__):
            with made.client(node) as client:
                client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", name)


async def test_a_node_that_refuses_for_now_is_asked_on_another_connection(three_nodes: Cluster) -> None:
    key = keys_by_node(three_nodes)[1]
    async with running(three_nodes.url) as store:
        put = Script(PUT)
        assert await store.run_many(put, [(key, b"before")]) == [b"before"]
        with three_nodes.client(1) as client:
            client.config_set("min-replicas-to-write", 1)
            (reply,) = await store.run_many(put, [(key, b"refused")])
            assert isinstance(reply, StoreUnavailable)
            with pytest.raises(StoreUnavailable) as caught:
                await store.run(put, [key], ["refused"])
            assert "Not enough good replicas" in str(caught.value.__cause__)
            client.config_set("min-replicas-to-write", 0)
        assert await store.run_many(put, [(key, b"after")]) == [b"after"]
        assert await store.run(put, [key], ["later"]) == b"later"
        with three_nodes.client(1) as client:
            # Those that were dropped, and this look.
            assert len(client.client_list(_type="normal")) <= 4


async def test_a_hung_node_fails_its_own_keys_alone(three_nodes: Cluster) -> None:
    keys = keys_by_node(three_nodes)

    async with running(three_nodes.url, timeout=2.0) as store:
        put = Script(PUT)
        calls = [(key, b"v") for key in keys]
        assert await store.run_many(put, calls) == [b"v"] * 3
        os.kill(three_nodes.pid(2), signal.SIGSTOP)
        try:
            one, two, hung = await store.run_many(put, calls)
            assert (one, two) == (b"v", b"v")
            assert isinstance(hung, StoreUnavailable)
            with pytest.raises(StoreUnavailable):
                await store.run_many(put, calls[2:])
            one, two, hung = await store.run_many(put, calls)
            assert (one, two) == (b"v", b"v")
        finally:
            os.kill(three_nodes.pid(2), signal.SIGCONT)
        assert await store.run_many(put, calls) == [b"v"] * 3
