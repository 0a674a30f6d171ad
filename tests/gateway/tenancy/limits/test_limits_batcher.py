"""How operations travel: together, once, through outages, and without leaving a lease behind."""

import asyncio
from typing import Any

import pytest
import redis

from gateway.config.models.price import Price
from gateway.tenancy.limits import limits_batcher as limits_batcher_module
from gateway.tenancy.limits.limiter import Usage
from gateway.tenancy.limits.limits_batcher import MAX_BATCH
from protos.errors import StoreUnavailable
from tests.gateway.tenancy.limits.bench import plan_of
from tests.gateway.tenancy.limits.worker import evalsha_calls, warm, worker_of
from tests.loops import until
from tests.stores import is_idle

PLAN = plan_of("acme", rpm=10**6, concurrency=10**5)
USAGE = Usage(5, 3, 2)


@pytest.fixture(autouse=True)
def nothing_is_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A renewal would be a call among those that are counted."""
    monkeypatch.setattr(limits_batcher_module, "RENEW_SECONDS", 600.0)
    monkeypatch.setattr(limits_batcher_module, "LEASE_SECONDS", 3600.0)


async def test_operations_of_one_tick_share_one_round_trip(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        await warm(worker)
        before, trips = evalsha_calls(store_url), worker.watched.trips
        leases = await asyncio.gather(*(worker.reserve(PLAN) for _ in range(100)))
        assert evalsha_calls(store_url) - before == 1
        for lease in leases:
            lease.settle(USAGE)
        await worker.settled()
        assert evalsha_calls(store_url) - before == 2
        assert worker.watched.trips - trips == 2
        assert await worker.leases("acme") == 0


async def test_what_comes_while_one_is_under_way_shares_the_next(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        await warm(worker)
        before = evalsha_calls(store_url)
        worker.watched.gate.clear()
        first = [asyncio.create_task(worker.reserve(PLAN)) for _ in range(3)]
        trips = worker.watched.trips
        await until(lambda: worker.watched.trips > trips)
        later = []
        for _ in range(20):
            later.append(asyncio.create_task(worker.reserve(PLAN)))
            await asyncio.sleep(0)
        worker.watched.gate.set()
        for lease in await asyncio.gather(*first, *later):
            lease.release()
        await worker.settled()
        assert evalsha_calls(store_url) - before == 3


async def test_tenants_share_round_trips_but_no_script_call(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        names = [f"t{number}" for number in range(10)]
        await warm(worker, *names)
        worker.watched.sizes.clear()
        plans = [plan_of(name, rpm=100) for name in names]
        leases = await asyncio.gather(*(worker.reserve(plan) for plan in plans * 5))
        assert worker.watched.sizes == [10]
        assert [await worker.in_flight(name) for name in names] == [5] * 10
        for lease in leases:
            lease.release()
        await worker.settled()
        assert worker.watched.sizes == [10, 10]


async def test_a_large_crowd_travels_in_batches(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        await warm(worker)
        worker.watched.sizes.clear()
        leases = await asyncio.gather(*(worker.reserve(PLAN) for _ in range(2 * MAX_BATCH + 1)))
        assert worker.watched.sizes == [1, 1, 1]
        for lease in leases:
            lease.release()
        await worker.settled()
        assert await worker.leases("acme") == 0


async def test_settlements_go_before_reservations(store_url: str) -> None:
    plan = plan_of("acme", concurrency=1)
    async with worker_of(store_url) as worker:
        lease = await worker.reserve(plan)
        for _ in range(20):
            waiting = asyncio.ensure_future(worker.reserve(plan))
            lease.settle(USAGE)
            lease = await waiting
        lease.release()
        await worker.settled()


async def test_a_settlement_waits_for_a_reservation_that_takes_it_along(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits_batcher_module, "SETTLE_SECONDS", 600.0)
    plan = plan_of("acme", concurrency=1)
    async with worker_of(store_url) as worker:
        lease = await worker.reserve(plan)
        before = evalsha_calls(store_url)
        for _ in range(20):
            lease.settle(USAGE)
            lease = await worker.reserve(plan)
        assert evalsha_calls(store_url) - before == 20
        assert await worker.in_flight("acme") == 1
        lease.settle(USAGE)
        # Another tenant's takes it along too.
        (await worker.reserve(plan_of("other", rpm=9))).release()
        assert await worker.leases("acme") == 0
        await worker.limits_batcher.flush()
        assert await worker.leases("other") == 0
        assert (await worker.used("acme")).requests == 21


async def test_a_settlement_that_no_reservation_takes_along_goes_by_itself(store_url: str) -> None:
    async with worker_of(store_url) as one, worker_of(store_url) as other:
        plan = plan_of("acme", concurrency=1)
        for _ in range(5):
            (await one.reserve(plan)).settle(USAGE)
            await one.settled()
            (await other.reserve(plan)).settle(USAGE)
            await other.settled()


async def test_a_store_that_forgets_its_scripts_is_told_again(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        for _ in range(3):
            lease = await worker.reserve(PLAN)
            with redis.Redis.from_url(store_url) as client:
                client.script_flush()
            lease.settle(USAGE)
            await worker.settled()
        assert (await worker.used("acme")).requests == 3


@pytest.mark.parametrize("ticks", range(6))
async def test_whoever_is_cancelled_while_waiting_leaves_no_lease(store_url: str, ticks: int) -> None:
    async with worker_of(store_url) as worker:
        await warm(worker)
        for _ in range(30):
            waiting = asyncio.create_task(worker.reserve(PLAN))
            for _ in range(ticks):
                await asyncio.sleep(0)
            waiting.cancel()
            (outcome,) = await asyncio.gather(waiting, return_exceptions=True)
            if not isinstance(outcome, BaseException):
                outcome.release()
        await worker.settled()
        assert await worker.leases("acme") == 0
        assert (await worker.state("acme")).scopes[0].requests == 0


async def test_whoever_is_cancelled_between_the_answer_and_reading_it_leaves_no_lease(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with worker_of(store_url) as worker:
        await warm(worker)
        worker.watched.gate.clear()
        waiting = asyncio.create_task(worker.reserve(PLAN))
        trips = worker.watched.trips
        await until(lambda: worker.watched.trips > trips)
        answered = worker.limits_batcher._answered

        def and_cancel(*args: Any) -> Any:
            found = answered(*args)
            waiting.cancel()
            return found

        monkeypatch.setattr(worker.limits_batcher, "_answered", and_cancel)
        worker.watched.gate.set()
        await asyncio.gather(waiting, return_exceptions=True)
        assert waiting.cancelled()
        await worker.settled()
        assert await worker.leases("acme") == 0


async def test_the_last_delivery_waits_for_the_one_under_way(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        held = await worker.reserve(PLAN)
        worker.watched.gate.clear()
        trips = worker.watched.trips
        held.settle(USAGE)
        await until(lambda: worker.watched.trips > trips)
        flushing = asyncio.create_task(worker.limits_batcher.flush())
        await asyncio.sleep(0.01)
        assert not flushing.done()
        worker.watched.gate.set()
        await flushing
        assert is_idle(worker.limits_batcher)


async def test_the_last_delivery_ends_whatever_fails(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        held = [await worker.reserve(plan_of(name, rpm=99)) for name in ("bad", "good")]
        worker.watched.failing.add("bad")
        for lease in held:
            lease.settle(USAGE)
        await worker.limits_batcher.flush()
        assert await worker.leases("good") == 0


async def test_everything_is_said_before_a_worker_ends(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        leases = await asyncio.gather(*(worker.reserve(PLAN) for _ in range(3 * MAX_BATCH)))
        for lease in leases:
            lease.settle(USAGE)
        await worker.limits_batcher.flush()
        await worker.crash()
        assert await worker.leases("acme") == 0
        assert (await worker.used("acme")).requests == 3 * MAX_BATCH


async def test_a_reservation_does_not_outlive_the_courier(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        await warm(worker)
        worker.watched.gate.clear()
        under_way = asyncio.create_task(worker.reserve(PLAN))
        trips = worker.watched.trips
        await until(lambda: worker.watched.trips > trips)
        queued = asyncio.create_task(worker.reserve(PLAN))
        await asyncio.sleep(0)
        await worker.crash()
        for waiting in (under_way, queued):
            with pytest.raises(StoreUnavailable):
                await waiting


async def test_alerts_are_told_once(store_url: str) -> None:
    plan = plan_of("acme", budget={"usd": 1}, price=Price(output=1000.0))
    async with worker_of(store_url) as one, worker_of(store_url) as two:
        for number in range(99):
            (await (one, two)[number % 2].reserve(plan)).settle(Usage(0, 10, 0))
        await one.settled()
        await two.settled()
        told = sorted(alert[2] for _, alert in one.alerts + two.alerts)
        assert told == [75, 90]
        assert {tenant for tenant, _ in one.alerts + two.alerts} == {"acme"}


async def test_numbers_are_never_given_twice(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        numbers = [worker.limits_batcher.number() for _ in range(100)]
        assert numbers == sorted(set(numbers))
