"""Requests that only a wide replica of a host group holds wait for one, and hold up nobody meanwhile."""

import pytest
from msgspec.structs import replace

from gateway.scheduling.hold import HOLD_SECONDS
from protos.errors import Overloaded, ReplicaUnavailable
from protos.types import Shape
from tests.gateway.scheduling.bench import LIMIT, Bench, settle

#: Tokens that a replica of one GPU holds, and one of two.
NARROW, WIDE = 3200, 9600
LONG = 5000


def bench_of(*names: str, wide: int = WIDE) -> Bench:
    """Replicas of one GPU each, which can become one of two."""
    bench = Bench(*names, kv_blocks=NARROW // 32)
    bench.fleet.narrow_tokens, bench.fleet.wide_tokens = NARROW, wide
    return bench


def merge(bench: Bench) -> None:
    views = bench.fleet.views
    del views["b"]
    load = replace(views["a"].load, kv_blocks_total=WIDE // 32)
    views["a"] = replace(views["a"], shape=Shape(tp=2), load=load)
    bench.fleet.on_load()


def split(bench: Bench) -> None:
    bench.fleet.views = bench_of("a", "b").fleet.views
    bench.fleet.on_load()


async def test_a_long_request_waits_until_a_replica_is_wide_enough() -> None:
    bench = bench_of("a", "b")
    waiting = bench.wait(prompt=LONG)
    await settle()
    assert not waiting.done()
    bench.now = 2.0
    assert bench.admission_queue.long_waits(NARROW) == [(LONG + 10, 2.0)]
    assert bench.admission_queue.long_waits(LONG + 10) == []
    merge(bench)
    await settle()
    admission = waiting.result()
    assert (admission.replica_id, admission.waited_seconds) == ("a", 2.0)
    admission.release(10)
    bench.check_empty()


async def test_it_waits_no_longer_than_its_tier_allows() -> None:
    bench = bench_of("a")
    waiting = bench.wait(prompt=LONG, wait_until=1.0)
    await settle()
    bench.now = 1.0
    bench.admission_queue.deadlines.expire()
    with pytest.raises(Overloaded, match="No replica had room for a request of this length"):
        await waiting
    bench.check_empty()


@pytest.mark.parametrize("prompt", [WIDE, WIDE + 1])
async def test_what_no_shape_holds_is_left_to_an_engine_to_refuse(prompt: int) -> None:
    admission = bench_of("a").admission_queue.try_enter(Bench().request(prompt=prompt))
    assert admission is not None
    assert admission.replica_id == "a"


async def test_without_groups_it_is_left_to_an_engine_at_once() -> None:
    bench = Bench("a", kv_blocks=NARROW // 32)
    assert bench.admission_queue.try_enter(bench.request(prompt=LONG)) is not None


@pytest.mark.parametrize("tenant", ["a", "other"])
async def test_short_requests_pass_long_ones_that_wait_for_width(tenant: str) -> None:
    bench = bench_of("a", "b")
    waiting = [bench.wait("a", prompt=LONG) for _ in range(20)]
    await settle()
    for time in (HOLD_SECONDS, 2 * HOLD_SECONDS, 3 * HOLD_SECONDS):
        bench.now = time
        bench.admission_queue.pump()
        short = bench.wait(tenant)
        await settle()
        # At once, and not with the next report.
        admission = short.result()
        admission.release(10)
    assert bench.admission_queue.waiting == len(waiting)
    assert bench.admission_queue._hold.replicas == frozenset()
    for task in waiting:
        task.cancel()
    await settle()
    bench.check_empty()


async def test_a_busy_wide_replica_is_held_for_the_long_request_in_front() -> None:
    bench = bench_of("a", "b")
    merge(bench)
    busy = bench.fill()
    waiting = bench.wait(prompt=LONG)
    await settle()
    for time in (0.0, HOLD_SECONDS):
        bench.now = time
        bench.admission_queue.pump()
    assert bench.admission_queue._hold.replicas == {"a"}
    assert len(busy) == LIMIT
    for admission in busy:
        bench.end(admission)
    await settle()
    waiting.result().release(10)
    bench.check_empty()


async def test_what_waits_at_a_split_goes_on_waiting() -> None:
    bench = bench_of("a", "b")
    merge(bench)
    busy = bench.fill()
    waiting = bench.wait(prompt=LONG)
    await settle()
    split(bench)
    await settle()
    assert not waiting.done()
    for admission in busy:
        admission.release(10)
    merge(bench)
    await settle()
    waiting.result().release(10)
    bench.check_empty()


def test_an_engine_that_reserves_output_needs_room_for_all_of_it() -> None:
    bench = bench_of("a")
    bench.fleet.views["a"] = replace(bench.fleet.views["a"], reserves_output=True)
    request = bench.request(prompt=3000, output=10)
    long = replace(request, route=replace(request.route, max_tokens=4000))
    queue = bench.admission_queue
    assert [queue.try_enter(one) is None for one in (request, long)] == [False, True]


async def test_while_all_members_are_parked_requests_wait_for_one() -> None:
    bench = bench_of("a")
    busy = bench.fill()
    waiting = [bench.wait()]
    await settle()
    views, bench.fleet.views, bench.fleet.awaits_member = bench.fleet.views, {}, True
    bench.fleet.on_load()
    waiting.append(bench.wait())
    await settle()
    assert not any(task.done() for task in waiting)
    bench.fleet.views = views
    for admission in busy:
        bench.end(admission)
    await settle()
    for task in waiting:
        task.result().release(10)
    bench.check_empty()


async def test_they_are_turned_away_when_no_member_is_left() -> None:
    bench = bench_of()
    bench.fleet.awaits_member = True
    waiting = bench.wait()
    await settle()
    bench.fleet.awaits_member = False
    bench.fleet.on_load()
    with pytest.raises(ReplicaUnavailable):
        await waiting
    bench.check_empty()
