"""How operations travel: together, once, through outages, and without leaving a lease behind."""

import asyncio
import os
import signal
import time
from typing import Any

import pytest
import redis

from gateway.limits import courier as courier_module
from gateway.limits.courier import MAX_BATCH, RESERVE
from gateway.limits.limiter import Lease, Usage
from gateway.limits.scripts import TENANTS_KEY
from gateway.store.embedded import EmbeddedStore
from protos.errors import PenstockError, RateLimited, StoreUnavailable
from tests.gateway.limits.bench import plan_of
from tests.gateway.limits.worker import Worker, evalsha_calls, frozen, worker_of
from tests.harness import bounded, until

PLAN = plan_of("acme", rpm=10**6, concurrency=10**5)
USAGE = Usage(5, 3, 2)


async def warm(worker: Worker, *tenants: str) -> None:
    """Make tenants known, as the first reservation of each does."""
    for tenant in tenants or ("acme",):
        (await worker.reserve(plan_of(tenant, rpm=10**6))).release()
    await worker.settled()


def test_operations_of_one_tick_share_one_round_trip(store_url: str) -> None:
    async def main() -> None:
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

    bounded(main)


def test_what_comes_while_one_is_under_way_shares_the_next(store_url: str) -> None:
    async def main() -> None:
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

    bounded(main)


def test_tenants_share_round_trips_but_no_script_call(store_url: str) -> None:
    async def main() -> None:
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

    bounded(main)


def test_a_large_crowd_travels_in_batches(store_url: str) -> None:
    async def main() -> None:
        async with worker_of(store_url) as worker:
            await warm(worker)
            worker.watched.sizes.clear()
            leases = await asyncio.gather(*(worker.reserve(PLAN) for _ in range(2 * MAX_BATCH + 1)))
            assert worker.watched.sizes == [1, 1, 1]
            for lease in leases:
                lease.release()
            await worker.settled()
            assert await worker.leases("acme") == 0

    bounded(main)


def test_settlements_go_before_reservations(store_url: str) -> None:
    async def main() -> None:
        plan = plan_of("acme", concurrency=1)
        async with worker_of(store_url) as worker:
            lease = await worker.reserve(plan)
            for _ in range(20):
                waiting = asyncio.ensure_future(worker.reserve(plan))
                lease.settle(USAGE)
                lease = await waiting
            lease.release()
            await worker.settled()

    bounded(main)


def test_a_store_that_forgets_its_scripts_is_told_again(store_url: str) -> None:
    async def main() -> None:
        async with worker_of(store_url) as worker:
            for _ in range(3):
                lease = await worker.reserve(PLAN)
                with redis.Redis.from_url(store_url) as client:
                    client.script_flush()
                lease.settle(USAGE)
                await worker.settled()
            assert (await worker.used("acme")).requests == 3

    bounded(main)


@pytest.mark.usefixtures("hurried")
def test_a_frozen_store_is_waited_for_once_and_then_refused_at_once(own_store: EmbeddedStore) -> None:
    async def main() -> None:
        async with worker_of(own_store.url, timeout=0.3) as worker:
            before = await worker.reserve(PLAN)
            assert own_store.pid is not None
            with frozen(own_store.pid):
                began = time.monotonic()
                found = await asyncio.gather(*(worker.reserve(PLAN) for _ in range(20)), return_exceptions=True)
                assert all(isinstance(error, StoreUnavailable) for error in found)
                assert time.monotonic() - began < 0.6
                assert all(error.retryable and error.retry_after for error in found if isinstance(error, PenstockError))
                began = time.monotonic()
                for _ in range(100):
                    with pytest.raises(StoreUnavailable):
                        await worker.reserve(PLAN)
                assert time.monotonic() - began < 0.1
                before.settle(USAGE)
            await until(lambda: worker.courier.available)
            (await worker.reserve(PLAN)).settle(USAGE)
            await worker.settled()
            # What the frozen store took and answered to nobody was refused, or has been given back.
            assert await worker.leases("acme") == 0
            assert await worker.in_flight("acme") == 0
            used = await worker.used("acme")
            assert (used.requests, used.input_tokens, used.output_tokens) == (2, 10, 6)
            assert (await worker.state("acme")).scopes[0].requests == 2

    bounded(main)


@pytest.mark.usefixtures("hurried")
def test_a_store_that_freezes_under_the_very_first_reservation(own_store: EmbeddedStore) -> None:
    async def main() -> None:
        assert own_store.pid is not None
        for _ in range(3):
            async with worker_of(own_store.url, timeout=0.2) as worker:
                with frozen(own_store.pid), pytest.raises(StoreUnavailable):
                    await worker.reserve(PLAN)
                await worker.settled()
                assert await worker.leases("acme") == 0

    bounded(main)


@pytest.mark.usefixtures("hurried")
def test_an_idle_worker_gets_over_an_outage_by_itself(own_store: EmbeddedStore) -> None:
    """The renewal notices it, and nothing is waiting that would wake the courier."""

    async def main() -> None:
        async with worker_of(own_store.url, timeout=0.1) as worker:
            await warm(worker)
            assert own_store.pid is not None
            with frozen(own_store.pid):
                await until(lambda: not worker.courier.available)
            await until(lambda: worker.courier.available)
            (await worker.reserve(PLAN)).release()
            await worker.settled()

    bounded(main)


@pytest.mark.usefixtures("hurried")
def test_a_killed_store_comes_back_with_what_it_knew(own_store: EmbeddedStore) -> None:
    async def main() -> None:
        plan = plan_of("acme", rpm=3, concurrency=3)
        async with worker_of(own_store.url, timeout=0.3) as worker:
            held = [await worker.reserve(plan) for _ in range(2)]
            assert own_store.pid is not None
            os.kill(own_store.pid, signal.SIGKILL)
            with pytest.raises(StoreUnavailable):
                await worker.reserve(plan)
            held.pop().settle(USAGE)
            own_store.start()
            await until(lambda: worker.courier.available)
            assert await worker.in_flight("acme") == 1 or not worker.courier.idle
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

    bounded(main)


@pytest.mark.parametrize("ticks", range(6))
def test_whoever_is_cancelled_while_waiting_leaves_no_lease(store_url: str, ticks: int) -> None:
    async def main() -> None:
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

    bounded(main)


def test_whoever_is_cancelled_between_the_answer_and_reading_it_leaves_no_lease(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with worker_of(store_url) as worker:
            await warm(worker)
            worker.watched.gate.clear()
            waiting = asyncio.create_task(worker.reserve(PLAN))
            trips = worker.watched.trips
            await until(lambda: worker.watched.trips > trips)
            answered = worker.courier._answered

            def and_cancel(*args: Any) -> Any:
                found = answered(*args)
                waiting.cancel()
                return found

            monkeypatch.setattr(worker.courier, "_answered", and_cancel)
            worker.watched.gate.set()
            await asyncio.gather(waiting, return_exceptions=True)
            assert waiting.cancelled()
            await worker.settled()
            assert await worker.leases("acme") == 0

    bounded(main)


@pytest.mark.usefixtures("hurried")
def test_a_dead_workers_leases_are_ended_by_another(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier_module, "LEASE_SECONDS", 0.3)

    async def main() -> None:
        async with worker_of(store_url) as dead, worker_of(store_url) as live:
            mine, theirs = plan_of("acme", rpm=99), plan_of("other", tpm=9999, budget={"usd": 1})
            held: list[Lease] = [await dead.reserve(theirs, 10, 10), await dead.reserve(mine)]
            kept = await live.reserve(mine)
            await dead.crash()
            async with asyncio.timeout(5):
                # It has nothing to do with this tenant: the set of all that have leases tells it.
                while await live.leases("other"):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                while await live.leases("acme") > 1:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert (await live.used("other")).input_tokens == 10
            for lease in held:
                lease.settle(USAGE)
            kept.settle(USAGE)
            await live.settled()
            assert await live.in_flight("acme") == 0
            assert (await live.used("acme")).requests == 2

    bounded(main)


@pytest.mark.usefixtures("hurried")
def test_long_leases_of_a_quiet_worker_stay(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier_module, "LEASE_SECONDS", 0.3)

    async def main() -> None:
        async with worker_of(store_url) as quiet, worker_of(store_url) as busy:
            kept = await quiet.reserve(PLAN)
            ends = time.monotonic() + 1.0
            while time.monotonic() < ends:
                (await busy.reserve(PLAN)).release()
                await asyncio.sleep(0.01)
            await busy.settled()
            assert await busy.in_flight("acme") == 1
            kept.settle(USAGE)
            await quiet.settled()
            assert (await busy.used("acme")).requests == 1

    bounded(main)


@pytest.mark.usefixtures("hurried")
def test_tenants_without_leases_are_forgotten(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier_module, "LEASE_SECONDS", 0.2)

    async def main() -> None:
        async with worker_of(store_url) as worker:
            await warm(worker, *(f"t{number}" for number in range(20)))
            with redis.Redis.from_url(store_url) as client:
                assert client.zcard(TENANTS_KEY) == 20
                await until(lambda: client.zcard(TENANTS_KEY) == 0)

    bounded(main)


@pytest.mark.parametrize("jump", [-3600.0, -10.0, 10.0, 3600.0])
def test_a_clock_that_jumps_costs_no_request(store_url: str, jump: float) -> None:
    """The worker's against the store's: a suspended machine, or a store that failed over to another."""
    ahead = 0.0

    async def main() -> None:
        nonlocal ahead
        async with worker_of(store_url, clock=lambda: time.monotonic() + ahead) as worker:
            await warm(worker)
            for _ in range(3):
                ahead += jump
                for _ in range(3):
                    (await worker.reserve(PLAN)).settle(USAGE)
            await worker.settled()
            assert (await worker.used("acme")).requests == 9

    bounded(main)


@pytest.mark.usefixtures("hurried")
def test_one_tenants_trouble_is_its_own_and_ends_by_itself(store_url: str) -> None:
    async def main() -> None:
        async with worker_of(store_url) as worker:
            bad, good = plan_of("bad", rpm=99), plan_of("good", rpm=99)
            held = await worker.reserve(bad)
            worker.watched.failing.add("bad")
            held.settle(USAGE)
            with pytest.raises(StoreUnavailable):
                await worker.reserve(bad)
            (await worker.reserve(good)).settle(USAGE)
            assert worker.courier.available
            assert not worker.courier.idle
            worker.watched.failing.clear()
            await worker.settled()
            assert await worker.leases("bad") == 0
            assert (await worker.used("bad")).requests == 1

    bounded(main)


@pytest.mark.usefixtures("hurried")
def test_what_one_tenant_could_not_have_delivered_is_tried_again_by_itself(store_url: str) -> None:
    async def main() -> None:
        async with worker_of(store_url) as worker:
            held = await worker.reserve(PLAN)
            worker.watched.failing.add("acme")
            trips = worker.watched.trips
            held.settle(USAGE)
            await until(lambda: worker.watched.trips > trips and not worker.courier._trip.locked())
            worker.watched.failing.clear()
            await worker.settled()

    bounded(main)


def test_the_last_delivery_waits_for_the_one_under_way(store_url: str) -> None:
    async def main() -> None:
        async with worker_of(store_url) as worker:
            held = await worker.reserve(PLAN)
            worker.watched.gate.clear()
            trips = worker.watched.trips
            held.settle(USAGE)
            await until(lambda: worker.watched.trips > trips)
            flushing = asyncio.create_task(worker.courier.flush())
            await asyncio.sleep(0.01)
            assert not flushing.done()
            worker.watched.gate.set()
            await flushing
            assert worker.courier.idle

    bounded(main)


def test_the_last_delivery_ends_whatever_fails(store_url: str) -> None:
    async def main() -> None:
        async with worker_of(store_url) as worker:
            held = [await worker.reserve(plan_of(name, rpm=99)) for name in ("bad", "good")]
            worker.watched.failing.add("bad")
            for lease in held:
                lease.settle(USAGE)
            await worker.courier.flush()
            assert await worker.leases("good") == 0

    bounded(main)


def test_everything_is_said_before_a_worker_ends(store_url: str) -> None:
    async def main() -> None:
        async with worker_of(store_url) as worker:
            leases = await asyncio.gather(*(worker.reserve(PLAN) for _ in range(3 * MAX_BATCH)))
            for lease in leases:
                lease.settle(USAGE)
            await worker.courier.flush()
            await worker.crash()
            assert await worker.leases("acme") == 0
            assert (await worker.used("acme")).requests == 3 * MAX_BATCH

    bounded(main)


def test_a_reservation_does_not_outlive_the_courier(store_url: str) -> None:
    async def main() -> None:
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

    bounded(main)


def test_an_answer_that_cannot_be_read_keeps_nobody_waiting(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
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

    bounded(main)


@pytest.mark.usefixtures("hurried")
def test_what_waits_for_a_store_is_bounded(own_store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier_module, "MAX_BACKLOG", 5)

    async def main() -> None:
        async with worker_of(own_store.url, timeout=0.2) as worker:
            held = [await worker.reserve(PLAN) for _ in range(9)]
            assert own_store.pid is not None
            with frozen(own_store.pid):
                for lease in held:
                    lease.settle(USAGE)
                await until(lambda: not worker.courier.available)
            await worker.settled()
            # The others are left to the time of their holder.
            assert await worker.leases("acme") == 4

    bounded(main)


def test_alerts_are_told_once(store_url: str) -> None:
    async def main() -> None:
        from gateway.limits.price import Price

        plan = plan_of("acme", budget={"usd": 1}, price=Price(output=1000.0))
        async with worker_of(store_url) as one, worker_of(store_url) as two:
            for number in range(99):
                (await (one, two)[number % 2].reserve(plan)).settle(Usage(0, 10, 0))
            await one.settled()
            await two.settled()
            told = sorted(alert[2] for _, alert in one.alerts + two.alerts)
            assert told == [75, 90]
            assert {tenant for tenant, _ in one.alerts + two.alerts} == {"acme"}

    bounded(main)


def test_numbers_are_never_given_twice(store_url: str) -> None:
    async def main() -> None:
        async with worker_of(store_url) as worker:
            numbers = [worker.courier.number() for _ in range(100)]
            assert numbers == sorted(set(numbers))
            assert RESERVE == 1

    bounded(main)
