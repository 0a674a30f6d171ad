"""Clients while the primary changes: connections to the old one stay open, and it answers that it is the wrong one."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from protos.errors import StoreUnavailable
from tests.stores import running, value_of
from tests.valkeys import Valkey, proxy_to, valkeys

PUT = Script("redis.call('SET', KEYS[1], ARGV[1]) return ARGV[1]")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[Valkey]]:
    """A primary and its replica."""
    with valkeys(tmp_path, 2) as servers:
        yield servers


def fail_over(old: Valkey, new: Valkey) -> None:
    new.follow(None)
    old.follow(new)


async def test_every_path_finds_the_new_primary_at_once(pair: list[Valkey]) -> None:
    old, new = pair
    async with proxy_to(old.port) as proxy, running(proxy.url) as store:
        # As many connections as a busy worker has; all of them stay open, at the old primary.
        await asyncio.gather(*(store.run(PUT, [f"k{i}"], ["v"]) for i in range(12)))
        await asyncio.gather(*(store.run_many(PUT, [(f"k{i}", b"v")]) for i in range(4)))
        fail_over(old, new)
        proxy.target = new.port
        many, one, _, _ = await asyncio.gather(
            store.run_many(PUT, [("a", b"1"), ("b", b"2")]), store.run(PUT, ["c"], ["3"]), store.ping(), store.now()
        )
        assert (many, one) == ([b"1", b"2"], b"3")
        for number in range(30):
            assert await store.run_many(PUT, [("d", b"%d" % number)]) == [b"%d" % number]
            assert await store.run(PUT, ["e"], [str(number)]) == b"%d" % number
    with new.client() as client, old.client() as before:
        assert [client.get(name) for name in "abcde"] == [b"1", b"2", b"3", b"29", b"29"]
        # Nothing but this look is connected to the old primary any more, but for its own replication.
        assert len(before.client_list(_type="normal")) == 1


async def test_reads_leave_the_old_primary_too(pair: list[Valkey]) -> None:
    old, new = pair
    async with proxy_to(old.port) as proxy, running(proxy.url) as store:
        await asyncio.gather(*(store.hgetall(f"h{i}") for i in range(8)))
        new.follow(None)
        # The old one follows nobody that has the new data.
        old.follow(pair[0])
        proxy.target = new.port
        with new.client() as client:
            client.hset("h", "name", "value")
        await store.run(PUT, ["k"], ["v"])
        assert await asyncio.gather(*(store.hgetall("h") for _ in range(8))) == [{b"name": b"value"}] * 8
        assert await store.hgetall_many(["h"]) == [{b"name": b"value"}]


async def test_a_primary_that_changes_later_is_found_later(pair: list[Valkey]) -> None:
    old, new = pair
    async with proxy_to(old.port) as proxy, running(proxy.url) as store:
        await store.run(PUT, ["k"], ["v"])
        fail_over(old, new)
        for _ in range(40):
            with pytest.raises(StoreUnavailable) as caught:
                await store.run(PUT, ["k"], ["v"])
            assert "read only replica" in str(caught.value.__cause__)
            (reply,) = await store.run_many(PUT, [("k", b"v")])
            assert isinstance(reply, StoreUnavailable)
            with pytest.raises(StoreUnavailable):
                await store.ping()
        # However long it refuses, it is not flooded with new connections.
        assert proxy.connections < 20
        proxy.target = new.port
        while not await _works(store):  # noqa: ASYNC110 (nothing tells when)
            await asyncio.sleep(0.01)


async def _works(store: Store) -> bool:
    try:
        await store.ping()
    except StoreUnavailable:
        return False
    return True


@pytest.mark.parametrize("lines", ["min-replicas-to-write 5", "replica-serve-stale-data no"])
async def test_a_server_that_refuses_for_now(pair: list[Valkey], lines: str) -> None:
    old, new = pair
    name, value = lines.split()
    async with proxy_to(old.port) as proxy, running(proxy.url) as store:
        await store.run(PUT, ["k"], ["v"])
        await store.run_many(PUT, [("k", b"v")])
        with old.client() as client:
            client.config_set(name, value)
        if name == "replica-serve-stale-data":
            # MASTERDOWN: its primary is nobody.
            with old.client() as client:
                client.execute_command("REPLICAOF", "127.0.0.1", 1)
        new.follow(None)
        proxy.target = new.port
        assert await store.hgetall("h") == {}
        assert await store.run(PUT, ["k"], ["1"]) == b"1"
        assert await store.run_many(PUT, [("k", b"2")]) == [b"2"]


async def test_each_server_gets_the_scripts_that_it_lacks(tmp_path: Path) -> None:
    with valkeys(tmp_path, 1) as (one,), valkeys(tmp_path, 1) as (two,):
        async with proxy_to(one.port) as proxy, running(proxy.url) as store:
            for server in (one, two):
                with server.client() as client:
                    client.set("name", server.port)
            # Calls go to one server or the other, as a proxy sees fit.
            for round_ in range(6):
                proxy.target = (one, two)[round_ % 2].port
                await asyncio.gather(*(store.run(PUT, ["k"], ["v"]) for _ in range(4 * round_ + 1)))
                script = Script(f"redis.call('SET', KEYS[1], ARGV[1]) return ARGV[1] -- {round_}")
                for _ in range(3):
                    assert await store.run_many(script, [("a", b"1"), ("b", b"2")]) == [b"1", b"2"]
                    assert await store.run(script, ["c"], ["3"]) == b"3"
        assert await asyncio.to_thread(one.client().get, "name") == str(one.port).encode()


async def test_a_value_of_the_error_kind_is_no_refusal(pair: list[Valkey]) -> None:
    async with running(f"redis://127.0.0.1:{pair[0].port}") as store:
        assert await store.run(PUT, ["k"], ["READONLY"]) == b"READONLY"
        assert await value_of(store, "k") == b"READONLY"
