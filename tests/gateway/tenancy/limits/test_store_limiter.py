"""The limiter of a worker: what it asks the store, and what it does while the store is away."""

import asyncio
from typing import Any

import pytest

from gateway.config.models.price import Price
from gateway.store.embedded import EmbeddedStore
from gateway.tenancy.limits.limit_scripts import TENANTS
from gateway.tenancy.limits.limiter import Ask, Rate, Room, Usage
from protos.errors import QuotaExceeded, RateLimited, StoreUnavailable
from tests.gateway.tenancy.limits.bench import plan_of
from tests.gateway.tenancy.limits.worker import Worker, at_once, evalsha_calls, worker_of
from tests.loops import until

OPEN: dict[str, Any] = {"on_store_failure": "fail_open"}
USAGE = Usage(5, 3, 2)


async def booked(worker: Worker) -> None:
    """Everything that was counted here alone is in the store."""
    await until(lambda: worker.limits_batcher.available)
    worker.limiter.book_now()
    await worker.settled()


async def test_a_lease_is_what_the_script_gave(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        plan = plan_of("acme", rpm=3, tpm=1000)
        lease = await worker.reserve(plan, 10, 50)
        assert lease.output == 50
        rate = worker.limiter.last_rate(plan.key_id)
        assert rate is not None
        assert rate.requests.limit == 3
        assert rate.requests.remaining == 2
        assert rate.tokens.remaining == 940
        lease.settle(USAGE)
        lease.settle(Usage(500, 500, 0))
        lease.release()
        await worker.settled()
        used = await worker.used("acme")
        assert (used.requests, used.input_tokens, used.cached_tokens, used.output_tokens) == (1, 5, 2, 3)


async def test_each_refusal_is_an_error_that_names_its_limit(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        held = await worker.reserve(plan_of("acme", concurrency=1))
        with pytest.raises(RateLimited) as limited:
            await worker.reserve(plan_of("acme", concurrency=1))
        assert limited.value.code == "concurrent_requests"
        assert limited.value.retry_after == 1.0
        assert "tenant 'acme' on concurrent requests: limit 1, used 1" in limited.value.message
        held.release()
        with pytest.raises(RateLimited) as limited:
            await worker.reserve(plan_of("acme", tpm=10), 100, 1)
        assert (limited.value.retryable, limited.value.retry_after) == (False, None)
        plan = plan_of("poor", price=Price(output=1000.0), budget={"usd": 0.001, "period": "day"})
        (await worker.reserve(plan)).settle(Usage(1, 1, 0))
        with pytest.raises(QuotaExceeded) as spent:
            await worker.reserve(plan)
        assert not spent.value.retryable
        assert "daily budget of tenant 'poor' is spent: $0.001 of $0.001" in spent.value.message
        await worker.settled()


async def test_a_tenant_without_limits_costs_no_round_trip_and_is_counted(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        plan = plan_of("free")
        assert not plan.metered
        before = evalsha_calls(store_url)
        for number in range(50):
            lease = await worker.reserve(plan, 5, 300)
            assert worker.limiter.last_rate(plan.key_id) is None
            assert lease.output >= 1
            lease.settle(USAGE) if number % 5 else lease.release()
            lease.settle(USAGE)
        assert evalsha_calls(store_url) == before
        await booked(worker)
        used = await worker.used("free")
        assert (used.requests, used.input_tokens, used.cached_tokens, used.output_tokens) == (40, 200, 80, 120)


async def test_the_estimate_of_an_unlimited_tenant_is_learned_here(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        plan = plan_of("free")
        assert (await worker.reserve(plan, 1, 4000)).output == 128
        (await worker.reserve(plan, 1, 4000)).settle(Usage(1, 700, 0))
        assert (await worker.reserve(plan, 1, 4000)).output == 700
        assert (await worker.reserve(plan, 1, 30)).output == 30
        assert (await worker.reserve(plan_of("other"), 1, 4000)).output == 128


@pytest.mark.usefixtures("hurried")
async def test_fail_closed_refuses_and_fail_open_counts_here(own_store: EmbeddedStore) -> None:
    closed, opened = plan_of("closed", rpm=99), plan_of("open", rpm=3, concurrency=2, tpm=1000, **OPEN)
    async with worker_of(own_store.url) as worker:
        before, trips = await worker.reserve(opened), worker.watched.trips
        with worker.frozen(own_store):
            first = await worker.reserve(opened, 5, 3)
            assert worker.watched.trips <= trips + 2, "its own, and the renewal of leases"
            second = at_once(worker.reserve(opened, 5, 3))
            with pytest.raises(RateLimited) as limited:
                at_once(worker.reserve(opened, 5, 3))
            assert limited.value.code == "concurrent_requests"
            with pytest.raises(StoreUnavailable):
                at_once(worker.reserve(closed))
            first.settle(USAGE)
            third = at_once(worker.reserve(opened, 5, 3))
            third.release()
            third = at_once(worker.reserve(opened, 5, 3))
            third.settle(USAGE)
            with pytest.raises(RateLimited) as limited:
                at_once(worker.reserve(opened, 5, 3))
            assert limited.value.code == "requests_per_minute"
            assert limited.value.retry_after is not None
            assert 55 < limited.value.retry_after <= 61
            before.settle(USAGE)
            worker.limiter.book_now()
        await booked(worker)
        second.settle(USAGE)
        second.settle(USAGE)
        await booked(worker)
        await booked(worker)
        used = await worker.used("open")
        assert (used.requests, used.input_tokens, used.output_tokens) == (4, 20, 12)
        assert await worker.leases("open") == await worker.leases("closed") == 0
        assert (await worker.state("open")).scopes[0].requests == 4
        with pytest.raises(RateLimited):
            await worker.reserve(opened)


@pytest.mark.usefixtures("hurried")
async def test_what_was_booked_but_not_confirmed_counts_once(own_store: EmbeddedStore) -> None:
    """The store takes a booking and freezes before it answers; the limits batcher says it again."""

    async with worker_of(own_store.url) as worker:
        plan = plan_of("free")
        real = worker.watched.run_many
        lost = 3

        async def forgetful(script: Any, calls: Any) -> Any:
            nonlocal lost
            replies = await real(script, calls)
            if lost:
                lost -= 1
                raise StoreUnavailable("lost")
            return replies

        worker.watched.run_many = forgetful  # type: ignore[method-assign]
        for _ in range(10):
            (await worker.reserve(plan)).settle(USAGE)
        worker.limiter.book_now()
        await until(lambda: not lost)
        await worker.settled()
        assert (await worker.used("free")).requests == 10


@pytest.mark.usefixtures("hurried")
async def test_a_reservation_whose_answer_was_lost_is_given_back(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        plan = plan_of("acme", rpm=5, concurrency=5)
        (await worker.reserve(plan)).release()
        await worker.settled()
        real = worker.watched.run_many

        async def forgetful(script: Any, calls: Any) -> Any:
            await real(script, calls)
            raise StoreUnavailable("lost")

        worker.watched.run_many = forgetful  # type: ignore[method-assign]
        with pytest.raises(StoreUnavailable):
            await worker.reserve(plan)
        worker.watched.run_many = real  # type: ignore[method-assign]
        await until(lambda: worker.limits_batcher.available)
        await worker.settled()
        assert await worker.leases("acme") == 0
        assert (await worker.state("acme")).scopes[0].requests == 0


async def test_the_last_known_rate_ages(store_url: str) -> None:
    now = 100.0

    async with worker_of(store_url, clock=lambda: now) as worker:
        plan = plan_of("acme", rpm=10, of_key={"tpm": 1000})
        assert worker.limiter.last_rate("k1") is None
        lease = await worker.reserve(plan, 100, 100)
        rate = worker.limiter.last_rate("k1")
        assert rate is not None
        assert (rate.requests.limit, rate.requests.remaining) == (10, 9)
        assert (rate.tokens.limit, rate.tokens.remaining) == (1000, 800)
        reset = rate.requests.reset_ms
        now += 2.5
        assert worker.limiter.last_rate("k1") == Rate(Room(10, 9, reset - 2500), Room(1000, 800, reset - 2500))
        now += 61
        assert worker.limiter.last_rate("k1") == Rate(Room(10, 10, 0), Room(1000, 1000, 0))
        lease.release()
        await worker.settled()


async def test_a_refusal_tells_the_rate_too(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        plan = plan_of("acme", rpm=1)
        (await worker.reserve(plan)).settle(USAGE)
        worker.limiter._rates.clear()
        with pytest.raises(RateLimited):
            await worker.reserve(plan)
        rate = worker.limiter.last_rate("k1")
        assert rate is not None
        assert (rate.requests.limit, rate.requests.remaining) == (1, 0)
        await worker.settled()


async def test_two_workers_share_one_limit(store_url: str) -> None:
    async with worker_of(store_url) as one, worker_of(store_url) as two:
        plan = plan_of("acme", rpm=50, concurrency=20)
        given = 0
        for _ in range(10):
            asks = [worker.reserve(plan) for worker in (one, two) for _ in range(15)]
            found = await asyncio.gather(*asks, return_exceptions=True)
            leases = [lease for lease in found if not isinstance(lease, BaseException)]
            assert len(leases) <= 20
            given += len(leases)
            for lease in leases:
                lease.settle(USAGE)
            await one.settled()
            await two.settled()
        assert given == 50


async def test_limits_are_asked_for_all_at_once(store_url: str) -> None:
    """Thousands of requests at one time, through two workers: not one too many."""

    async with worker_of(store_url) as one, worker_of(store_url) as two:
        plan = plan_of("acme", tpm=12_345)
        asks = [worker.limiter.reserve(Ask(plan, 7, 3, 1)) for worker in (one, two) for _ in range(1500)]
        found = await asyncio.gather(*asks, return_exceptions=True)
        assert sum(not isinstance(lease, BaseException) for lease in found) == 1234
        assert all(isinstance(error, RateLimited) for error in found if isinstance(error, BaseException))


async def test_the_script_that_knows_tenants_is_no_part_of_a_request(store_url: str) -> None:
    """A tenant that is known costs one call to reserve and one to settle, and nothing else."""

    async with worker_of(store_url) as worker:
        plan = plan_of("acme", rpm=10**6)
        (await worker.reserve(plan)).release()
        await worker.settled()
        assert TENANTS.sha is not None
        before = evalsha_calls(store_url)
        for _ in range(20):
            (await worker.reserve(plan)).settle(USAGE)
            await worker.settled()
        assert evalsha_calls(store_url) - before == 40


async def test_limits_that_were_taken_away_are_told_no_longer(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        (await worker.reserve(plan_of("acme", rpm=10), 1, 1)).release()
        assert worker.limiter.last_rate("k1") is not None
        (await worker.reserve(plan_of("acme"), 1, 1)).release()
        assert worker.limiter.last_rate("k1") is None


async def test_what_the_queue_would_not_run_is_counted_without_limits_too(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        for rejected in (True, False, True):
            (await worker.reserve(plan_of("free"), 7, 1)).release(rejected=rejected)
        await booked(worker)
        used = await worker.used("free")
        assert (used.requests, used.rejected_requests, used.rejected_tokens) == (0, 2, 14)
