import asyncio
from typing import Any

import pytest

from gateway.scheduling.admission import Admission
from gateway.scheduling.admission_rate import UNKNOWN_RETRY
from gateway.scheduling.hold import HOLD_SECONDS
from gateway.scheduling.shares import ActiveTenant
from protos.errors import ClientGone, Overloaded
from routing.contracts.policy import Decision
from routing.dispatch.dispatch import RequestHandle
from tests.gateway.scheduling.bench import LIMIT, Bench, settle
from tests.loops import until


async def test_what_nothing_waits_before_passes_at_once_until_the_fleet_is_full() -> None:
    bench = Bench("p/0", "p/1")
    turns = bench.fill()
    assert sorted(admission.replica_id or "" for admission in turns) == ["p/0"] * LIMIT + ["p/1"] * LIMIT
    assert all(admission.waited_seconds == 0.0 for admission in turns)
    for admission in turns:
        admission.release(10)
        admission.release(10)
    bench.check_empty()


async def test_without_any_replica_there_is_nothing_to_wait_for() -> None:
    bench = Bench()
    admission = bench.enter()
    assert admission is not None
    assert admission.replica_id is None
    admission.opened("p/9")
    admission.started()
    admission.release(0)
    bench.check_empty()


async def test_what_no_replica_could_ever_hold_is_left_to_the_engine_to_refuse() -> None:
    bench = Bench("p/0")
    turns = bench.fill()
    huge = bench.enter(prompt=320_001)
    assert huge is not None
    for admission in [huge, *turns]:
        admission.release(0)
    many = bench.enter(n=LIMIT + 1)
    assert many is not None
    many.release(0)
    bench.check_empty()


async def test_a_turn_is_given_when_one_ends_and_knows_how_long_it_waited() -> None:
    bench = Bench("p/0")
    turns = bench.fill()
    waiting = bench.wait()
    await settle()
    assert bench.admission_queue.depths() == {"a": 1}
    bench.now = 2.5
    bench.end(turns.pop())
    admission = await waiting
    assert (admission.replica_id, admission.waited_seconds) == ("p/0", 2.5)
    for other in [admission, *turns]:
        other.release(1)
    bench.check_empty()


async def test_a_promise_counts_until_the_replicas_view_does() -> None:
    bench = Bench("p/0", "p/1")
    turns = [bench.admission_queue.try_enter(bench.request()) for _ in range(2 * LIMIT)]
    assert all(turns)
    waiting = bench.wait()
    await settle()
    bench.admission_queue.pump()
    await settle()
    assert not waiting.done()
    first = turns[0]
    assert first is not None
    first.release(0)
    turns[0] = await waiting
    for admission in turns:
        assert admission is not None
        admission.release(0)
    bench.check_empty()


async def test_tenants_are_served_by_weight_and_each_in_order() -> None:
    bench = Bench("p/0")
    turns = bench.fill("x")
    order: list[str] = []

    async def one(tenant: str, weight: float, number: int) -> None:
        request = bench.request(tenant, weight=weight)
        admission = await bench.admission_queue.enter(request, RequestHandle())
        order.append(f"{tenant}{number}")
        admission.release(10)

    tasks = [asyncio.create_task(one("a", 1.0, k)) for k in range(4)]
    tasks += [asyncio.create_task(one("b", 2.0, k)) for k in range(4)]
    await settle()
    bench.end(turns.pop())
    await asyncio.gather(*tasks)
    assert [name for name in order if name[0] == "a"] == ["a0", "a1", "a2", "a3"]
    assert [name[0] for name in order[:6]].count("b") == 4
    for admission in turns:
        admission.release(10)
    bench.check_empty()


async def test_who_can_be_placed_is_not_held_up_by_others_who_cannot() -> None:
    bench = Bench("p/0", "p/1", kv_blocks=1000)
    busy = [bench.enter("a"), bench.enter("a")]
    large = bench.wait("a", prompt=31_900)
    await settle()
    small = asyncio.create_task(bench.admission_queue.enter(bench.request("b"), RequestHandle()))
    admission = await small
    assert admission.waited_seconds == 0.0
    assert not large.done()
    admission.release(0)
    for one in busy:
        assert one is not None
        bench.end(one)
    (await large).release(0)
    bench.check_empty()


async def test_a_large_request_gets_a_replica_kept_for_it_in_the_end() -> None:
    bench = Bench("p/0", "p/1", kv_blocks=1000)
    turns = bench.fill("b")
    large = bench.wait("a", prompt=31_900)
    smalls: list[asyncio.Task[Admission]] = []
    for _ in range(8 * LIMIT):
        smalls.append(bench.wait("b"))
        await settle()
        bench.now += 0.2
        if turns:
            bench.end(turns.pop(0))
            await settle()
        if large.done():
            break
        for task in [task for task in smalls if task.done()]:
            smalls.remove(task)
            admission = task.result()
            assert admission.replica_id is not None
            admission.opened(admission.replica_id)
            bench.fleet.running(admission.replica_id, 1)
            turns.append(admission)
    assert large.done()
    assert bench.now > HOLD_SECONDS
    large.result().release(0)
    for task in smalls:
        task.cancel()
    results = await asyncio.gather(*smalls, return_exceptions=True)
    for admission in [*turns, *(result for result in results if isinstance(result, Admission))]:
        admission.release(0)
    bench.check_empty()


@pytest.mark.parametrize("before", [True, False])
async def test_who_leaves_while_waiting_leaves_nothing_behind(before: bool) -> None:
    bench, handle = Bench("p/0"), RequestHandle()
    turns = bench.fill()
    if before:
        handle.fail(ClientGone("left"))
    waiting = bench.wait(handle=handle)
    await settle()
    if not before:
        assert not handle.failed
        handle.fail(ClientGone("left"))
    with pytest.raises(ClientGone):
        await waiting
    assert handle.failed
    for admission in turns:
        admission.release(0)
    bench.check_empty()


@pytest.mark.parametrize("given", [True, False])
async def test_a_cancelled_task_gives_its_turn_back(given: bool) -> None:
    bench = Bench("p/0")
    turns = bench.fill()
    waiting, after = bench.wait(), bench.wait()
    await settle()
    if given:
        bench.end(turns.pop())  # the turn is there, and its task has not run yet
        waiting.cancel()
    else:
        waiting.cancel()
        bench.end(turns.pop())  # the task that is ending must not be given one
    with pytest.raises(asyncio.CancelledError):
        await waiting
    bench.admission_queue.pump()
    (await after).release(0)
    for admission in turns:
        admission.release(0)
    bench.check_empty()


async def test_a_client_that_leaves_after_its_turn_was_given_still_gets_it() -> None:
    bench, handle = Bench("p/0"), RequestHandle()
    turns = bench.fill()
    waiting = bench.wait(handle=handle)
    await settle()
    bench.end(turns.pop())
    handle.fail(ClientGone("left"))
    (await waiting).release(0)
    assert handle.failed
    for admission in turns:
        admission.release(0)
    bench.check_empty()


async def test_waiting_ends_in_time_with_one_timer_for_all() -> None:
    bench = Bench("p/0")
    turns = bench.fill()
    late = bench.wait(wait_until=30.0)
    soon = bench.wait(wait_until=10.0)
    await settle()
    bench.now = 9.9
    bench.admission_queue.deadlines.expire()
    await settle()
    assert bench.admission_queue.waiting == 2
    bench.now = 10.0
    bench.admission_queue.deadlines.expire()
    with pytest.raises(Overloaded) as caught:
        await soon
    assert caught.value.retry_after == UNKNOWN_RETRY or caught.value.retry_after
    bench.now = 40.0
    bench.admission_queue.deadlines.expire()
    with pytest.raises(Overloaded):
        await late
    for admission in turns:
        admission.release(0)
    bench.check_empty()


async def test_the_timer_runs_by_itself() -> None:
    bench = Bench("p/0")
    turns = bench.fill()
    waiting = bench.wait(wait_until=0.01)
    await settle()
    bench.now = 1.0
    with pytest.raises(Overloaded):
        await waiting
    for admission in turns:
        admission.release(0)
    bench.check_empty()


async def test_what_an_answer_really_cost_moves_its_tenants_next_turn() -> None:
    bench = Bench("p/0")
    turns = bench.fill("x")
    first = bench.wait("a")
    waiting = [bench.wait("b") for _ in range(6)] + [bench.wait("a")]
    await settle()
    bench.end(turns.pop())
    admission = await first
    assert admission.replica_id is not None
    admission.opened(admission.replica_id)
    bench.fleet.running("p/0", 1)
    bench.end(admission, output=1000)  # it was expected to be 10
    for task in waiting:
        (await task).release(10)
        if task is waiting[-1]:
            break
    assert [task.done() for task in waiting] == [True] * 7
    for admission in turns:
        admission.release(0)
    bench.check_empty()


async def test_a_flood_of_long_prompts_leaves_replicas_to_others_while_they_are_active() -> None:
    bench = Bench("p/0", "p/1", "p/2", "p/3")
    alone = [bench.admission_queue.try_enter(bench.request("flood", prompt=30_000)) for _ in range(4)]
    assert {admission.replica_id for admission in alone if admission} == {"p/0", "p/1", "p/2", "p/3"}
    for admission in alone:
        assert admission is not None
        admission.release(1)
    bench.admission_queue.active_elsewhere = [ActiveTenant("chat", 1, 1.0, 0.0)]
    bench.now = 1.0
    turns = [bench.admission_queue.try_enter(bench.request("flood", prompt=30_000)) for _ in range(3)]
    lanes = {admission.replica_id for admission in turns if admission}
    assert (len(lanes), turns[2]) == (2, None)
    small = bench.admission_queue.try_enter(bench.request("chat"))
    assert small is not None
    assert small.replica_id not in lanes
    # Once its prompt has been computed, the next may follow it.
    for admission in turns[:2]:
        assert admission is not None
        admission.opened(admission.replica_id or "")
        admission.started()
    again = bench.admission_queue.try_enter(bench.request("flood", prompt=30_000))
    assert again is not None
    assert again.replica_id in lanes
    for admission in [*turns[:2], small, again]:
        assert admission is not None
        admission.release(0)
    bench.check_empty()


async def test_reserved_room_stays_free_while_its_tier_is_active() -> None:
    bench = Bench("p/0", "p/1")
    bench.admission_queue.active_elsewhere = [ActiveTenant("gold", 0, 1.0, 0.5)]
    turns = bench.fill("bronze")
    assert len(turns) == LIMIT
    golden = bench.fill("gold")
    assert len(golden) == LIMIT
    for admission in [*turns, *golden]:
        admission.release(0)
    bench.check_empty()


async def test_a_retry_elsewhere_moves_what_is_being_computed() -> None:
    bench = Bench("p/0", "p/1")
    admission = bench.admission_queue.try_enter(bench.request(prompt=500))
    assert admission is not None
    admission.opened(admission.replica_id or "")
    other = "p/1" if admission.replica_id == "p/0" else "p/0"
    admission.opened(other)
    assert admission.tenant.prefill == {other: 500}
    admission.started()
    admission.started()
    assert admission.tenant.prefill == {}
    admission.release(3)
    admission.opened("p/0")
    bench.check_empty()


async def test_a_fruitless_look_at_many_tenants_is_not_repeated_at_every_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench("p/0")
    turns = bench.fill()
    tasks = []
    for number in range(20):
        request = bench.request(f"t{number}")
        tasks.append(asyncio.create_task(bench.admission_queue.enter(request, RequestHandle())))
    await settle()
    looks = 0
    choose = bench.admission_queue._choose

    def counted(*arguments: Any) -> Decision | None:
        nonlocal looks
        looks += 1
        return choose(*arguments)

    monkeypatch.setattr(bench.admission_queue, "_choose", counted)
    for _ in range(50):
        bench.admission_queue.pump()
    assert looks == 20
    bench.now = 1.0
    bench.end(turns.pop())
    await until(lambda: any(task.done() for task in tasks))
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Admission):
            result.release(0)
    for admission in turns:
        admission.release(0)
    bench.check_empty()


async def test_tenants_are_active_while_they_have_work_and_a_little_longer() -> None:
    bench = Bench("p/0")
    turns = bench.fill("a")
    waiting = bench.wait("b", reserved=0.2, prompt=5000)
    await settle()
    bench.now = 50.0
    assert bench.admission_queue.active_here() == [
        ActiveTenant("a", 1, 1.0, 0.0),
        ActiveTenant("b", 1, 1.0, 0.2),
    ]
    bench.admission_queue.pump()
    assert bench.admission_queue.active_here()[1].heavy
    for admission in turns:
        bench.end(admission)
    (await waiting).release(0)
    bench.now = 59.0
    assert len(bench.admission_queue.active_here()) == 2
    bench.now = 61.0
    assert bench.admission_queue.active_here() == []
