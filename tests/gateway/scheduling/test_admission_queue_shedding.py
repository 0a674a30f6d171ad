import asyncio

import pytest

from gateway.scheduling.admission_rate import LONGEST_RETRY, SHORTEST_RETRY
from protos.errors import Overloaded
from routing.dispatch.dispatch import RequestHandle
from tests.gateway.scheduling.bench import LIMIT, Bench, settle


@pytest.mark.parametrize("bound", [0, 2])
async def test_a_tenants_own_bound_sheds_only_its_own(bound: int) -> None:
    bench = Bench("p/0")
    turns = bench.fill()
    kept = [bench.wait(max_waiting=bound) for _ in range(bound)]
    await settle()
    with pytest.raises(Overloaded):
        await bench.admission_queue.enter(bench.request(max_waiting=bound), RequestHandle())
    other = asyncio.create_task(bench.admission_queue.enter(bench.request("b"), RequestHandle()))
    await settle()
    assert not other.done()
    for task in [*kept, other]:
        task.cancel()
    await asyncio.gather(*kept, other, return_exceptions=True)
    for admission in turns:
        admission.release(0)
    bench.check_empty()


async def test_a_request_in_the_background_that_finds_no_room_is_deferred() -> None:
    bench = Bench("p/0")
    turns = bench.fill()
    for tenant in ("a", "a/background"):
        with pytest.raises(Overloaded):
            await bench.admission_queue.enter(bench.request(tenant, max_waiting=0), RequestHandle())
    refused = {result: count for (_, result), count in bench.admission_queue.admissions.items() if result != "at_once"}
    assert refused == {"shed": 1, "deferred": 1}
    for admission in turns:
        admission.release(0)
    bench.check_empty()


async def test_beyond_the_workers_bound_the_newest_of_the_lowest_tier_is_shed() -> None:
    bench = Bench("p/0", max_waiting=3)
    turns = bench.fill()
    low = [bench.wait("low", rank=2) for _ in range(2)]
    middle = bench.wait("middle", rank=1)
    await settle()
    high = bench.wait("high", rank=0)
    await settle()
    with pytest.raises(Overloaded):
        await low[1]
    with pytest.raises(Overloaded):
        await bench.wait("low", rank=2)
    higher = [bench.wait("high", rank=0) for _ in range(2)]
    for shed in (low[0], middle):
        with pytest.raises(Overloaded):
            await shed
    with pytest.raises(Overloaded):
        await bench.wait("high", rank=0)
    for task in [high, *higher]:
        task.cancel()
    await asyncio.gather(high, *higher, return_exceptions=True)
    for admission in turns:
        admission.release(0)
    bench.check_empty()


@pytest.mark.parametrize(
    ("seconds", "waiting", "retry"), [(10.0, 10, 5.0), (10.0, 1, SHORTEST_RETRY), (1e6, 10, LONGEST_RETRY)]
)
async def test_a_client_is_told_to_come_back_when_what_waits_will_have_passed(
    seconds: float, waiting: int, retry: float
) -> None:
    bench = Bench("p/0", max_waiting=waiting)
    for _ in range(20):
        admission = bench.enter()
        assert admission is not None
        bench.end(admission)
    bench.now = seconds
    turns = bench.fill()[:LIMIT]
    tasks = [bench.wait() for _ in range(waiting)]
    await settle()
    with pytest.raises(Overloaded) as caught:
        await bench.wait()
    # 24 requests of one cost have passed in these seconds, and the average has not quite caught up with them.
    assert caught.value.retry_after == pytest.approx(max(SHORTEST_RETRY, min(retry, LONGEST_RETRY)), rel=0.3)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for admission in turns:
        admission.release(0)
    bench.check_empty()
