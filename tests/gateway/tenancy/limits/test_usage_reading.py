"""What is read of the store for use over a time, and in how many round trips."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from gateway.tenancy.limits.limit_scripts import base_key
from gateway.tenancy.limits.usage_reading import DAYS_KEPT, HOURS_KEPT, spans_of, usage
from protos.errors import StoreUnavailable

NOON = datetime(2026, 11, 21, 12, 30, tzinfo=UTC).timestamp()
HOUR, DAY = int(NOON // 3600), int(NOON // 86400)
HSET = Script("return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])")


@pytest.mark.parametrize(
    ("since", "hours", "days"),
    [
        (timedelta(minutes=5), range(HOUR, HOUR + 1), range(0)),
        (timedelta(hours=12), range(HOUR - 12, HOUR - 12), range(DAY, DAY + 1)),
        (timedelta(hours=13), range(HOUR - 13, HOUR - 12), range(DAY, DAY + 1)),
        (timedelta(days=7), range(HOUR - 168, HOUR - 156), range(DAY - 6, DAY + 1)),
        (timedelta(days=7, seconds=1), range(0), range(DAY - 7, DAY + 1)),
    ],
)
def test_whole_days_are_read_as_days(since: timedelta, hours: range, days: range) -> None:
    assert [list(one) for one in spans_of(NOON, since)] == [list(hours), list(days)]


@given(st.floats(1e9, 2e9), st.integers(1, int(HOURS_KEPT.total_seconds())))
def test_every_hour_is_read_once(now: float, seconds: int) -> None:
    hours, days = spans_of(now, timedelta(seconds=seconds))
    read = [*hours, *(24 * day + hour for day in days for hour in range(24))]
    assert len(read) == len(set(read))
    # Nothing is known of the hours to come.
    past = sorted(hour for hour in read if hour <= now // 3600)
    assert past == list(range(int((now - seconds) // 3600), int(now // 3600) + 1))
    assert len(hours) + len(days) <= 24 + 8


class Counting:
    """The store, with the number of round trips."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.trips = 0
        self.run, self.now = store.run, store.now

    async def run_many(self, script: Script, calls: Sequence[tuple[str, bytes]]) -> list[bytes | StoreUnavailable]:
        self.trips += 1
        return await self._store.run_many(script, calls)


async def test_two_thousand_tenants_are_read_in_a_few_round_trips(store_url: str) -> None:
    store = Store(store_url, timeout=10.0)
    names = [f"of-many-{number}" for number in range(2000)]
    try:
        day = int(await store.now() // 86400)
        counts = msgspec.msgpack.encode([1, 2**40, 3, 4, 5, 6, 7])
        for name in names[::400]:
            await store.run(HSET, [f"{base_key(name)}:usage:d:{day}"], ["m\0k", counts])
        counting = Counting(store)
        rows = await usage(counting, names, ["tenant"], HOURS_KEPT)
        assert [row.tenant for row in rows] == sorted(names[::400])
        assert {row.input_tokens for row in rows} == {2**40}
        assert counting.trips <= 4
        assert len(await usage(counting, names, [], DAYS_KEPT)) == 1
    finally:
        await store.aclose()


async def test_a_record_that_cannot_be_read_is_said(store_url: str) -> None:
    store = Store(store_url, timeout=10.0)
    try:
        day = int(await store.now() // 86400)
        await store.run(HSET, [f"{base_key('broken')}:usage:d:{day}"], ["m\0k", b"\xc1"])
        with pytest.raises(StoreUnavailable, match="cannot be read"):
            await usage(store, ["broken"], [], timedelta(days=30))
    finally:
        await store.aclose()
