"""Couriers while the store is away, slow or forgetful, and when a worker dies."""

import asyncio
import os
import signal
import time
from typing import Any

import pytest
import redis

from gateway.store.embedded import EmbeddedStore
from gateway.tenancy.limits import limits_batcher as limits_batcher_module
from gateway.tenancy.limits.limit_scripts import TENANTS_KEY, base_key
from gateway.tenancy.limits.limiter import Lease, Usage
from protos.errors import RateLimited, StoreUnavailable
from tests.gateway.tenancy.limits.bench import plan_of
from tests.gateway.tenancy.limits.worker import Worker, at_once, warm, worker_of
from tests.loops import until
from tests.stores import is_idle

PLAN = plan_of("acme", rpm=10**6, concurrency=10**5)
USAGE = Usage(5, 3, 2)


@pytest.mark.usefixtures("hurried")
async def test_a_frozen_store_is_waited_for_once_and_then_refused_at_once(own_store: EmbeddedStore) -> None:
    async with worker_of(own_store.url) as worker:
        before, trips = await worker.reserve(PLAN), worker.watched.trips

        async def refused() -> None:
            with pytest.raises(StoreUnavailable) as caught:
                await worker.reserve(PLAN)
            # One trip for all of them, beside which leases may be renewed.
            assert worker.watched.trips <= trips + 2
            assert caught.value.retryable
            assert caught.value.retry_after

        with worker.frozen(own_store):
            await asyncio.gather(*(refused() for _ in range(20)))
            for _ in range(100):
                with pytest.raises(StoreUnavailable):
                    at_once(worker.reserve(PLAN))
            before.settle(USAGE)
        await until(lambda: worker.limits_batcher.available)
        (await worker.reserve(PLAN)).settle(USAGE)
        await worker.settled()
        # What the frozen store took and answered to nobody was refused, or has been given back.
        assert await worker.leases("acme") == 0
        assert await worker.in_flight("acme") == 0
        used = await worker.used("acme")
        assert (used.requests, used.input_tokens, used.output_tokens) == (2, 10, 6)
        assert (await worker.state("acme")).scopes[0].requests == 2


@pytest.mark.usefixtures("hurried")
async def test_a_store_that_freezes_under_the_very_first_reservation(own_store: EmbeddedStore) -> None:
    for _ in range(3):
        async with worker_of(own_store.url) as worker:
            with worker.frozen(own_store), pytest.raises(StoreUnavailable):
                await worker.reserve(PLAN)
            await worker.settled()
            assert await worker.leases("acme") == 0


@pytest.mark.usefixtures("hurried")
async def test_an_idle_worker_gets_over_an_outage_by_itself(own_store: EmbeddedStore) -> None:
    """The renewal notices it, and nothing is waiting that would wake the limits batcher."""

    async with worker_of(own_store.url) as worker:
        await warm(worker)
        with worker.frozen(own_store):
            await until(lambda: not worker.limits_batcher.available)
        await until(lambda: worker.limits_batcher.available)
        (await worker.reserve(PLAN)).release()
        await worker.settled()


@pytest.mark.usefixtures("hurried")
async def test_a_killed_store_comes_back_with_what_it_knew(own_store: EmbeddedStore) -> None:
    plan = plan_of("acme", rpm=3, concurrency=3)
    async with worker_of(own_store.url) as worker:
        held = [await worker.reserve(plan) for _ in range(2)]
        assert own_store.pid is not None
        os.kill(own_store.pid, signal.SIGKILL)
        with pytest.raises(StoreUnavailable):
            await worker.reserve(plan)
        held.pop().settle(USAGE)
        own_store.start()
        await until(lambda: worker.limits_batcher.available)
        delivered = is_idle(worker.limits_batcher)  # asked first: it may deliver while the store is asked
        assert await worker.in_flight("acme") == 1 or not delivered
        await worker.settled()
        assert await worker.in_flight("acme") == 1
        held.append(await worker.reserve(plan))
        with pytest.raises(RateLimited):
            await worker.reserve(plan)
        for lease in held:
            lease.settle(USAGE)
        await worker.settled()
        assert (await worker.used("acme")).requests == 3
        assert await worker.leases("acme") == 0


def let_lapse(url: str, worker: Worker, *tenants: str) -> None:
    """As if the store had heard nothing of a worker and of these tenants for longer than a lease lasts."""
    with redis.Redis.from_url(url) as client:
        client.zadd(TENANTS_KEY, dict.fromkeys(tenants, 0), xx=True)
        for key in [f"{base_key(tenant)}:holders" for tenant in tenants]:
            if client.hexists(key, end := f"e:{worker.limits_batcher.holder}"):
                client.hset(key, end, 0)


@pytest.mark.usefixtures("hurried")
async def test_a_dead_workers_leases_are_ended_by_another(store_url: str) -> None:
    async with worker_of(store_url) as dead, worker_of(store_url) as live:
        mine, theirs = plan_of("acme", rpm=99), plan_of("other", tpm=9999, budget={"usd": 1})
        held: list[Lease] = [await dead.reserve(theirs, 10, 10), await dead.reserve(mine)]
        kept = await live.reserve(mine)
        await dead.crash()
        # It has nothing to do with this tenant: the set of all that have leases tells it.
        while await live.leases("other"):
            let_lapse(store_url, dead, "other")
            await asyncio.sleep(0.01)
        while await live.leases("acme") > 1:
            let_lapse(store_url, dead, "acme")
            await asyncio.sleep(0.01)
        assert (await live.used("other")).input_tokens == 10
        for lease in held:
            lease.settle(USAGE)
        kept.settle(USAGE)
        await live.settled()
        assert await live.in_flight("acme") == 0
        assert (await live.used("acme")).requests == 2


@pytest.mark.usefixtures("hurried")
async def test_long_leases_of_a_quiet_worker_stay(store_url: str) -> None:
    """A worker without requests renews its leases, which puts off their end."""
    async with worker_of(store_url) as quiet, worker_of(store_url) as busy:
        kept = await quiet.reserve(PLAN)
        end = await given_up_at(quiet)
        for _ in range(30):
            last = end
            while (end := await given_up_at(quiet)) <= last:
                (await busy.reserve(PLAN)).release()
                await asyncio.sleep(0.01)
        await busy.settled()
        assert await busy.in_flight("acme") == 1
        kept.settle(USAGE)
        await quiet.settled()
        assert (await busy.used("acme")).requests == 1


async def given_up_at(worker: Worker) -> int:
    """When the leases of a worker end unless it is heard of before, in ms on the store's clock."""
    holders = await worker.store.hgetall(f"{base_key('acme')}:holders")
    return int(holders[f"e:{worker.limits_batcher.holder}".encode()])


@pytest.mark.usefixtures("hurried")
async def test_tenants_without_leases_are_forgotten(store_url: str) -> None:
    tenants = [f"t{number}" for number in range(20)]
    async with worker_of(store_url) as worker:
        await warm(worker, *tenants)
        with redis.Redis.from_url(store_url) as client:
            assert client.zcard(TENANTS_KEY) == 20
        let_lapse(store_url, worker, *tenants)
        with redis.Redis.from_url(store_url) as client:
            await until(lambda: client.zcard(TENANTS_KEY) == 0)


@pytest.mark.parametrize("jump", [-3600.0, -10.0, 10.0, 3600.0])
async def test_a_clock_that_jumps_costs_no_request(store_url: str, jump: float) -> None:
    """The worker's against the store's: a suspended machine, or a store that failed over to another."""
    ahead = 0.0

    async with worker_of(store_url, clock=lambda: time.monotonic() + ahead) as worker:
        await warm(worker)
        for _ in range(3):
            ahead += jump
            for _ in range(3):
                (await worker.reserve(PLAN)).settle(USAGE)
        await worker.settled()
        assert (await worker.used("acme")).requests == 9


@pytest.mark.usefixtures("hurried")
async def test_one_tenants_trouble_is_its_own_and_ends_by_itself(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        bad, good = plan_of("bad", rpm=99), plan_of("good", rpm=99)
        held = await worker.reserve(bad)
        worker.watched.failing.add("bad")
        held.settle(USAGE)
        with pytest.raises(StoreUnavailable):
            await worker.reserve(bad)
        (await worker.reserve(good)).settle(USAGE)
        assert worker.limits_batcher.available
        assert not is_idle(worker.limits_batcher)
        worker.watched.failing.clear()
        await worker.settled()
        assert await worker.leases("bad") == 0
        assert (await worker.used("bad")).requests == 1


@pytest.mark.usefixtures("hurried")
async def test_what_one_tenant_could_not_have_delivered_is_tried_again_by_itself(store_url: str) -> None:
    async with worker_of(store_url) as worker:
        held = await worker.reserve(PLAN)
        worker.watched.failing.add("acme")
        trips = worker.watched.trips
        held.settle(USAGE)
        await until(lambda: worker.watched.trips > trips and not worker.limits_batcher._round_trip.locked())
        worker.watched.failing.clear()
        await worker.settled()


async def test_an_answer_that_cannot_be_read_keeps_nobody_waiting(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with worker_of(store_url) as worker:
        await warm(worker)
        real = worker.watched.run_many

        async def garbled(script: Any, calls: Any) -> Any:
            await real(script, calls)
            return [b"\xc1nonsense" for _ in calls]

        monkeypatch.setattr(worker.watched, "run_many", garbled)
        with pytest.raises(StoreUnavailable):
            await worker.reserve(PLAN)
        monkeypatch.setattr(worker.watched, "run_many", real)
        (await worker.reserve(PLAN)).release()
        await worker.settled()
        assert await worker.leases("acme") == 0


@pytest.mark.usefixtures("hurried")
async def test_what_waits_for_a_store_is_bounded(own_store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_batcher_module, "MAX_BACKLOG", 5)

    async with worker_of(own_store.url) as worker:
        held = [await worker.reserve(PLAN) for _ in range(9)]
        with worker.frozen(own_store):
            for lease in held:
                lease.settle(USAGE)
            await until(lambda: not worker.limits_batcher.available)
        await worker.settled()
        # The others are left to the time of their holder.
        assert await worker.leases("acme") == 4
