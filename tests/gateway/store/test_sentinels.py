"""The primary that real Sentinels name, before and after they make another one."""

import asyncio
import shutil
import time
from pathlib import Path

import pytest
import redis

from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from gateway.store.store_failure import StoreFailure
from protos.errors import StoreUnavailable
from tests.certificates import Authority
from tests.ports import free_port
from tests.stores import running, value_of
from tests.valkeys import Tls, Valkey, eventually, sentinels, valkeys

PUT = Script("redis.call('SET', KEYS[1], ARGV[1]) return ARGV[1]")
#: How long a failover may take: the Sentinels must agree, and choose one of them to lead it.
_FAILOVER_SECONDS = 30.0


def address(watchers: list[Valkey], rest: str = "/main", login: str = "") -> str:
    return f"redis+sentinel://{login}{','.join(f'127.0.0.1:{one.port}' for one in watchers)}{rest}"


async def back(store: Store) -> None:
    """Wait until all ways to the store work again."""
    deadline = time.monotonic() + _FAILOVER_SECONDS
    while True:
        try:
            await store.ping()
            (reply,) = await store.run_many(PUT, [("again", b"v")])
            if reply == b"v":
                return
        except StoreUnavailable:
            pass
        assert time.monotonic() < deadline, "the primary that follows is not found"
        await asyncio.sleep(0.02)


async def test_a_primary_that_dies(tmp_path: Path) -> None:
    with (
        valkeys(tmp_path, 2, password="right") as (old, new),
        sentinels(tmp_path, 3, old, servers="right", own="watch") as watchers,
    ):
        rest = "/main/0?sentinel_password=watch"
        async with running(address(watchers, rest, ":right@")) as store:
            await asyncio.gather(*(store.run(PUT, [f"k{i}"], ["v"]) for i in range(6)))
            assert await store.run_many(PUT, [("many", b"1")]) == [b"1"]
            # One of the Sentinels dies with it: the others can still agree.
            old.stop()
            watchers[0].stop()
            with pytest.raises(StoreUnavailable):
                await store.run(PUT, ["k"], ["v"])
            await back(store)
            assert await store.run(PUT, ["k"], ["after"]) == b"after"
            with new.client() as client:
                assert client.get("k") == b"after"
        for wrong, said in (
            (address(watchers, "/main", ":right@"), "the Sentinels want a password"),
            (address(watchers, "/main?sentinel_password=hunter2", ":right@"), "the Sentinels refuse"),
            (address(watchers, rest, ":hunter2@"), "it refuses the password of the address"),
            (address(watchers, rest), "it wants a password, and the address has none"),
            (address(watchers, "/other?sentinel_password=watch", ":right@"), "know no server of the name other"),
        ):
            async with running(wrong) as store:
                with pytest.raises(StoreUnavailable) as caught:
                    await store.ping()
                assert said in str(caught.value.__cause__)
                assert "hunter2" not in str(caught.value.__cause__)


async def test_a_primary_that_is_made_a_replica_and_keeps_its_connections(tmp_path: Path) -> None:
    with valkeys(tmp_path, 2) as (old, new), sentinels(tmp_path, 1, old) as watchers:
        async with running(address(watchers, "/main/3")) as store:
            await asyncio.gather(*(store.run(PUT, [f"k{i}"], ["v"]) for i in range(6)))
            await store.run_many(PUT, [("many", b"1")])
            await asyncio.to_thread(eventually, lambda: _makes_another(watchers[0]))
            await _until_replica(old)
            await back(store)
            for number in range(20):
                assert await store.run(PUT, ["k"], [str(number)]) == b"%d" % number
                assert await store.run_many(PUT, [("k", b"%d" % number)]) == [b"%d" % number]
            assert await value_of(store, "k") == b"19"
        with new.client() as client:
            client.select(3)
            assert client.execute_command("INFO", "keyspace")


async def test_sentinels_and_servers_with_tls(tmp_path: Path) -> None:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server, which has TLS")
    authority = Authority(tmp_path)
    tls = Tls(program, authority.signed(), authority.ca)
    with (
        valkeys(tmp_path, 2, password="right", tls=tls) as (old, new),
        sentinels(tmp_path, 1, old, servers="right", own="watch", tls=tls) as watchers,
    ):
        options = f"sentinel_password=watch&ssl_ca_certs={authority.ca}"
        url = address(watchers, f"/main?{options}", ":right@").replace("redis+", "rediss+")
        async with running(url) as store:
            assert await store.run(PUT, ["k"], ["v"]) == b"v"
            await asyncio.to_thread(eventually, lambda: _makes_another(watchers[0]))
            await _until_replica(old)
            await back(store)
            assert await store.run(PUT, ["k"], ["after"]) == b"after"
        with new.client() as client:
            assert client.get("k") == b"after"


def _makes_another(sentinel: Valkey) -> bool:
    """Have a Sentinel make another primary; it refuses until it has looked at the replica."""
    with sentinel.client() as client:
        try:
            client.execute_command("SENTINEL", "FAILOVER", "main")
        except redis.exceptions.ResponseError as error:
            assert "NOGOODSLAVE" in str(error)
            return False
    return True


async def _until_replica(server: Valkey) -> None:
    deadline = time.monotonic() + _FAILOVER_SECONDS
    with server.client() as client:
        while client.execute_command("ROLE")[0] != b"slave":
            assert time.monotonic() < deadline, "nobody has been made primary"
            await asyncio.sleep(0.02)


async def test_no_sentinel_at_all() -> None:
    ports = free_port(), free_port()
    async with running(f"redis+sentinel://:hunter2@127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}/main") as store:
        with pytest.raises(StoreUnavailable) as caught:
            await store.hgetall("h")
    failure = caught.value.__cause__
    assert isinstance(failure, StoreFailure)
    assert str(failure) == f"no Sentinel answers at 127.0.0.1:{ports[0]}, 127.0.0.1:{ports[1]}"
    assert not failure.refused
