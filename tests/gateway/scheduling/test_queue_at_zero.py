import asyncio
import math

import pytest

from gateway.config.admission import AdmissionSettings
from gateway.scheduling.queue_at_zero import QueueAtZero
from protos.errors import ClientGone, Overloaded, ReplicaUnavailable
from routing.dispatch.dispatch import RequestHandle
from routing.policies.least_load import LeastLoad
from tests.gateway.scheduling.bench import LIMIT, Bench, settle

WAIT = 60.0


class ZeroBench(Bench):
    """A queue whose replicas are started for it, and what it tells the controller."""

    admission_queue: QueueAtZero

    def __init__(self, *names: str, max_waiting: int = 100) -> None:
        super().__init__(*names, max_waiting=max_waiting)
        admission = AdmissionSettings(watermark=1.0, max_waiting=max_waiting)
        self.admission_queue = QueueAtZero(self.fleet, LeastLoad(), admission, WAIT, lambda: self.now)
        self.told = 0
        self.admission_queue.on_wait = self._tell

    def _tell(self) -> None:
        self.told += 1

    def lose(self, name: str) -> None:
        del self.fleet.views[name]
        self.fleet.on_load()


def waits(handle: RequestHandle) -> bool:
    return handle.waits_at_zero


async def test_requests_wait_for_the_first_replica_and_then_get_it_in_fair_order() -> None:
    bench, order = ZeroBench(), []

    async def one(tenant: str, weight: float) -> None:
        request = bench.request(tenant, weight=weight)
        assert bench.admission_queue.try_enter(request) is None
        admission = await bench.admission_queue.enter(request, RequestHandle())
        order.append(tenant)
        admission.release(10)

    tasks = [asyncio.create_task(one("a", 1.0)) for _ in range(4)]
    tasks += [asyncio.create_task(one("b", 2.0)) for _ in range(4)]
    await settle()
    assert (bench.admission_queue.waiting, bench.told, order) == (8, 8, [])
    bench.admission_queue.pump()
    await settle()
    assert order == [], "looking through the queue rejects nobody"
    bench.now = 30.0
    bench.fleet.join("p/0")
    await asyncio.gather(*tasks)
    assert order[:6].count("b") == 4
    bench.check_empty()
    assert bench.admission_queue.admissions == {(1, "waited"): 8}


async def test_nobody_waits_for_a_replica_that_an_operator_forbids() -> None:
    bench, waiting = ZeroBench(), []
    for _ in range(3):
        request = bench.request("a")
        assert bench.admission_queue.try_enter(request) is None
        waiting.append(asyncio.create_task(bench.admission_queue.enter(request, RequestHandle())))
    await settle()
    bench.admission_queue.first_replica_in = lambda: math.inf
    bench.admission_queue.pump()
    for task in waiting:
        with pytest.raises(ReplicaUnavailable):
            await task
    # It goes on to dispatch, which finds no replica, as where nothing scales.
    admission = bench.admission_queue.try_enter(bench.request("a"))
    assert admission is not None
    admission.release(0)
    bench.check_empty()


async def test_with_a_replica_it_is_a_queue_like_any_other() -> None:
    bench = ZeroBench("p/0")
    turns = bench.fill()
    assert len(turns) == LIMIT
    late = bench.wait(wait_until=10.0)
    await settle()
    bench.now = 10.0
    bench.admission_queue.deadlines.expire()
    with pytest.raises(Overloaded):
        await late
    for admission in turns:
        admission.release(0)
    assert bench.told == 0
    bench.check_empty()


async def test_after_its_wait_a_request_is_told_when_the_replica_is_expected() -> None:
    bench = ZeroBench()
    bench.admission_queue.first_replica_in = lambda: 41.2
    waiting = bench.wait(wait_until=5.0)
    await settle()
    bench.now = WAIT - 0.1
    bench.admission_queue.deadlines.expire()
    await settle()
    assert not waiting.done(), "the tier's own bound is for a fleet that is full"
    bench.now = WAIT
    bench.admission_queue.deadlines.expire()
    with pytest.raises(ReplicaUnavailable, match=r"not ready .* Try again in 42 seconds\.") as caught:
        await waiting
    assert caught.value.retry_after == 41.2
    assert bench.admission_queue.admissions == {(1, "shed"): 1}
    bench.check_empty()


async def test_a_replica_that_should_be_there_already_is_expected_in_a_second() -> None:
    bench = ZeroBench()
    bench.admission_queue.first_replica_in = lambda: -7.0
    waiting = bench.wait()
    await settle()
    bench.now = WAIT
    bench.admission_queue.deadlines.expire()
    with pytest.raises(ReplicaUnavailable) as caught:
        await waiting
    assert caught.value.retry_after == 1.0


async def test_nobody_waits_longer_than_his_client() -> None:
    bench = ZeroBench()
    waiting = asyncio.create_task(bench.admission_queue.enter(bench.request(), RequestHandle(), 20.0))
    await settle()
    bench.now = 20.0
    bench.admission_queue.deadlines.expire()
    with pytest.raises(ReplicaUnavailable):
        await waiting
    bench.check_empty()


async def test_too_many_are_refused_at_once() -> None:
    bench = ZeroBench(max_waiting=2)
    bench.admission_queue.first_replica_in = lambda: 30.0
    others = [bench.wait("a"), bench.wait("b")]
    await settle()
    with pytest.raises(Overloaded, match="too many requests wait for it") as caught:
        await bench.admission_queue.enter(bench.request("c"), RequestHandle())
    assert caught.value.retry_after == 30.0
    own = bench.wait("a", max_waiting=1)
    with pytest.raises(Overloaded):
        await own
    bench.fleet.join("p/0")
    for one in others:
        (await one).release(0)
    bench.check_empty()


async def test_a_handle_knows_that_its_request_waits_at_zero() -> None:
    bench, handle, left = ZeroBench(), RequestHandle(), RequestHandle()
    waiting, gone = bench.wait(handle=handle), bench.wait(handle=left)
    await settle()
    assert waits(handle)
    left.fail(ClientGone("gone"))
    with pytest.raises(ClientGone):
        await gone
    assert not waits(left)
    bench.fleet.join("p/0")
    (await waiting).release(0)
    assert not waits(handle)
    bench.check_empty()


async def test_those_that_wait_when_the_last_replica_goes_get_the_next_one() -> None:
    bench, handle = ZeroBench("p/0"), RequestHandle()
    turns = bench.fill()
    waiting = bench.wait(handle=handle)
    await settle()
    bench.lose("p/0")
    await settle()
    assert not waiting.done()
    assert not waits(handle)
    assert bench.admission_queue.at_zero
    bench.fleet.join("p/1")
    assert (await waiting).replica_id == "p/1"
    (await waiting).release(0)
    for admission in turns:
        admission.release(0)
    bench.check_empty()
