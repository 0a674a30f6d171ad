import pytest

from gateway.scaling.leasing.lease import HELD_SECONDS, LEASE_SECONDS, Lease, LeaseLost, Write
from gateway.store.lua_script import Script
from protos.errors import StoreUnavailable
from tests.stores import running

AGE = Script("return redis.call('PEXPIRE', KEYS[1], ARGV[1])")
LEFT = Script("return redis.call('PTTL', KEYS[1])")
BACK = Script("return redis.call('SET', KEYS[1], ARGV[1])")
KEY = "penstock:{scaling}:lease"
TOKEN = "penstock:{scaling}:token"
NOTE = Write("put", "penstock:{scaling}:test", "a", b"1")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def expect_lost(lease: Lease) -> None:
    assert lease.held is None
    with pytest.raises(LeaseLost):
        await lease.write([NOTE])


async def test_one_holds_it_and_another_gets_it_when_it_has_ended(any_store_url: str) -> None:
    async with running(any_store_url) as store:
        one, two = Lease(store, "one"), Lease(store, "two")
        first = await one.renew()
        assert first is not None and one.held == first
        assert await two.renew() is None
        assert two.holder is not None and two.holder.name == "one"
        await store.run(AGE, [KEY], ["1"])
        while (second := await two.renew()) is None:
            pass
        assert second.token > first.token
        assert await one.renew() is None
        assert one.held is None


async def test_what_a_former_holder_writes_is_refused(store_url: str) -> None:
    async with running(store_url) as store:
        one, two = Lease(store, "one"), Lease(store, "two")
        await one.renew()
        await one.write([NOTE])
        await store.run(AGE, [KEY], ["0"])
        await two.renew()
        assert one.held is not None
        with pytest.raises(LeaseLost):
            await one.write([Write("put", NOTE.key, "a", b"2")])
        await expect_lost(one)
        assert await store.hgetall(NOTE.key) == {b"a": b"1"}
        await two.write([Write("put", NOTE.key, "a", b"")])
        assert await store.hgetall(NOTE.key) == {}


async def test_a_holder_that_cannot_renew_stops_before_another_one_begins(store_url: str) -> None:
    clock = Clock()
    async with running(store_url) as store:
        one = Lease(store, "one", clock)
        await one.renew()
        clock.now += HELD_SECONDS - 0.1
        assert one.held is not None
        clock.now += 0.2
        await expect_lost(one)
        assert HELD_SECONDS < LEASE_SECONDS
        assert await one.renew() is not None


async def test_a_call_that_fails_keeps_the_lease_as_long_as_it_was_given(store_url: str) -> None:
    clock = Clock()
    async with running(store_url) as store:
        one = Lease(store, "one", clock)
        held = await one.renew()
    gone = Lease(store, "one", clock)
    async with running("redis://127.0.0.1:1") as nothing:
        gone = Lease(nothing, "one", clock)
        gone._mine, gone._until = held, clock.now + HELD_SECONDS
        with pytest.raises(StoreUnavailable):
            await gone.renew()
        assert gone.held == held
        clock.now += HELD_SECONDS
        assert gone.held is None


async def test_tokens_grow_where_the_clock_has_gone_back(store_url: str) -> None:
    async with running(store_url) as store:
        await store.run(BACK, [TOKEN], [str(2**52)])
        one = Lease(store, "one")
        held = await one.renew()
        assert held is not None and held.token == 2**52 + 1


async def test_a_lease_that_is_left_is_free_at_once(store_url: str) -> None:
    async with running(store_url) as store:
        one, two = Lease(store, "one"), Lease(store, "two")
        await one.renew()
        await one.leave()
        assert one.held is None
        assert await two.renew() is not None
        # It is not one's any more, and is not taken from two.
        await one.leave()
        assert await two.renew() is not None


async def test_the_store_lets_it_go_in_time(store_url: str) -> None:
    async with running(store_url) as store:
        await Lease(store, "one").renew()
        left = await store.run(LEFT, [KEY], [])
        assert isinstance(left, int) and 0 < left <= LEASE_SECONDS * 1000
