import asyncio

import pytest
from msgspec import structs

from gateway.fleets.discovery import registrations
from gateway.fleets.discovery.registrations import Registration, deregister, register, registered
from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from protos.errors import StoreUnavailable
from protos.types import Role, Shape

ONE = Registration("m", "p", "grpc://10.0.0.1:1", 5, "simulated", Shape(tp=2), Role.BOTH, "v1", "abc", ("a",))
TWO = structs.replace(ONE, address="grpc://10.0.0.2:1")
SPOIL = Script("redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) return 1")


async def test_what_is_said_is_heard_and_can_be_taken_back(any_store_url: str) -> None:
    store = Store(any_store_url, timeout=10.0)
    assert await registered(store) == []
    assert await register(store, TWO)
    assert await register(store, ONE)
    assert await registered(store) == [ONE, TWO]
    assert await deregister(store, TWO)
    assert await registered(store) == [ONE]
    await store.aclose()


async def test_who_is_silent_is_forgotten(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrations, "RECORD_SECONDS", 0.2)

    store = Store(store_url, timeout=10.0)
    await register(store, ONE)
    await register(store, TWO)
    while await registered(store) != [TWO]:
        await register(store, TWO)
    await store.aclose()


async def test_a_later_process_has_the_address(store_url: str) -> None:
    store, later = Store(store_url, timeout=10.0), structs.replace(ONE, epoch=6, version="v2")
    assert await register(store, ONE)
    assert await register(store, later)
    assert not await register(store, ONE)
    assert not await deregister(store, ONE)
    assert await registered(store) == [later]
    await store.aclose()


async def test_what_another_version_has_written_is_left_out(store_url: str) -> None:
    store = Store(store_url, timeout=10.0)
    await register(store, ONE)
    # Nested lists and bytes that are no text are what msgspec has errors of its own for.
    odd = [b"{", b"{}", b'{"model":"\xff"}', b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"]
    for value in (b"", b"x", b"\xff" * 30, *(b"0" * 20 + b":" + raw for raw in odd)):
        await store.run(SPOIL, [registrations._KEYS[1]], [value, value])
    assert await registered(store) == [ONE]
    await store.aclose()


async def test_without_the_store_it_says_so() -> None:
    store = Store("redis://127.0.0.1:1/0", timeout=0.5)
    for call in (register(store, ONE), deregister(store, ONE), registered(store)):
        with pytest.raises(StoreUnavailable):
            await call
    await store.aclose()


async def test_many_at_once_are_all_there(store_url: str) -> None:
    store = Store(store_url, timeout=10.0)
    all_ = [structs.replace(ONE, address=f"grpc://10.0.0.{i}:1") for i in range(50)]
    await asyncio.gather(*(register(store, one) for one in all_))
    assert len(await registered(store)) == 50
    await store.aclose()
