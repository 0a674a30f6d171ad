import asyncio
from typing import Any

import pytest

from gateway.scheduling.admission import Turn
from gateway.scheduling.admission_queue import HOLD_SECONDS, UNKNOWN_RETRY
from gateway.scheduling.shares import ActiveTenant
from protos.errors import ClientGone, Overloaded
from routing.contracts.policy import Decision
from routing.dispatch.dispatch import Attempt
from tests.gateway.scheduling.bench import LIMIT, Bench, run, settle
from tests.harness import until


def test_what_nothing_waits_before_passes_at_once_until_the_fleet_is_full() -> None:
    async def main() -> None:
        bench = Bench("p/0", "p/1")
        turns = bench.fill()
        assert sorted(turn.replica_id or "" for turn in turns) == ["p/0"] * LIMIT + ["p/1"] * LIMIT
        assert all(turn.waited_seconds == 0.0 for turn in turns)
        for turn in turns:
            turn.release(10)
            turn.release(10)
        bench.check_empty()

    run(main)


def test_without_any_replica_there_is_nothing_to_wait_for() -> None:
    async def main() -> None:
        bench = Bench()
        turn = bench.enter()
        assert turn is not None
        assert turn.replica_id is None
        turn.opened("p/9")
        turn.started()
        turn.release(0)
        bench.check_empty()

    run(main)


def test_what_no_replica_could_ever_hold_is_left_to_the_engine_to_refuse() -> None:
    async def main() -> None:
        bench = Bench("p/0")
        turns = bench.fill()
        huge = bench.enter(prompt=320_001)
        assert huge is not None
        for turn in [huge, *turns]:
            turn.release(0)
        many = bench.enter(n=LIMIT + 1)
        assert many is not None
        many.release(0)
        bench.check_empty()

    run(main)


def test_a_turn_is_given_when_one_ends_and_knows_how_long_it_waited() -> None:
    async def main() -> None:
        bench = Bench("p/0")
        turns = bench.fill()
        waiting = bench.wait()
        await settle()
        assert bench.turnstile.depths() == {"a": 1}
        bench.now = 2.5
        bench.end(turns.pop())
        turn = await waiting
        assert (turn.replica_id, turn.waited_seconds) == ("p/0", 2.5)
        for other in [turn, *turns]:
            other.release(1)
        bench.check_empty()

    run(main)


def test_a_promise_counts_until_the_replicas_view_does() -> None:
    async def main() -> None:
        bench = Bench("p/0", "p/1")
        turns = [bench.turnstile.try_enter(bench.request()) for _ in range(2 * LIMIT)]
        assert all(turns)
        waiting = bench.wait()
        await settle()
        bench.turnstile.pump()
        await settle()
        assert not waiting.done()
        first = turns[0]
        assert first is not None
        first.release(0)
        turns[0] = await waiting
        for turn in turns:
            assert turn is not None
            turn.release(0)
        bench.check_empty()

    run(main)


def test_tenants_are_served_by_weight_and_each_in_order() -> None:
    async def main() -> None:
        bench = Bench("p/0")
        turns = bench.fill("x")
        order: list[str] = []

        async def one(tenant: str, weight: float, number: int) -> None:
            request = bench.request(tenant, weight=weight)
            turn = await bench.turnstile.enter(request, Attempt())
            order.append(f"{tenant}{number}")
            turn.release(10)

        tasks = [asyncio.create_task(one("a", 1.0, k)) for k in range(4)]
        tasks += [asyncio.create_task(one("b", 2.0, k)) for k in range(4)]
        await settle()
        bench.end(turns.pop())
        await asyncio.gather(*tasks)
        assert [name for name in order if name[0] == "a"] == ["a0", "a1", "a2", "a3"]
        assert [name[0] for name in order[:6]].count("b") == 4
        for turn in turns:
            turn.release(10)
        bench.check_empty()

    run(main)


def test_who_can_be_placed_is_not_held_up_by_others_who_cannot() -> None:
    async def main() -> None:
        bench = Bench("p/0", "p/1", kv_blocks=1000)
        busy = [bench.enter("a"), bench.enter("a")]
        large = bench.wait("a", prompt=31_900)
        await settle()
        small = asyncio.create_task(bench.turnstile.enter(bench.request("b"), Attempt()))
        turn = await small
        assert turn.waited_seconds == 0.0
        assert not large.done()
        turn.release(0)
        for one in busy:
            assert one is not None
            bench.end(one)
        (await large).release(0)
        bench.check_empty()

    run(main)


def test_a_large_request_gets_a_replica_kept_for_it_in_the_end() -> None:
    async def main() -> None:
        bench = Bench("p/0", "p/1", kv_blocks=1000)
        turns = bench.fill("b")
        large = bench.wait("a", prompt=31_900)
        smalls: list[asyncio.Task[Turn]] = []
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
                turn = task.result()
                assert turn.replica_id is not None
                turn.opened(turn.replica_id)
                bench.fleet.running(turn.replica_id, 1)
                turns.append(turn)
        assert large.done()
        assert bench.now > HOLD_SECONDS
        large.result().release(0)
        for task in smalls:
            task.cancel()
        results = await asyncio.gather(*smalls, return_exceptions=True)
        for turn in [*turns, *(result for result in results if isinstance(result, Turn))]:
            turn.release(0)
        bench.check_empty()

    run(main)


@pytest.mark.parametrize("before", [True, False])
def test_who_leaves_while_waiting_leaves_nothing_behind(before: bool) -> None:
    async def main() -> None:
        bench, attempt = Bench("p/0"), Attempt()
        turns = bench.fill()
        if before:
            attempt.fail(ClientGone("left"))
        waiting = bench.wait(attempt=attempt)
        await settle()
        if not before:
            assert not attempt.failed
            attempt.fail(ClientGone("left"))
        with pytest.raises(ClientGone):
            await waiting
        assert attempt.failed
        for turn in turns:
            turn.release(0)
        bench.check_empty()

    run(main)


@pytest.mark.parametrize("given", [True, False])
def test_a_cancelled_task_gives_its_turn_back(given: bool) -> None:
    async def main() -> None:
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
        bench.turnstile.pump()
        (await after).release(0)
        for turn in turns:
            turn.release(0)
        bench.check_empty()

    run(main)


def test_a_client_that_leaves_after_its_turn_was_given_still_gets_it() -> None:
    async def main() -> None:
        bench, attempt = Bench("p/0"), Attempt()
        turns = bench.fill()
        waiting = bench.wait(attempt=attempt)
        await settle()
        bench.end(turns.pop())
        attempt.fail(ClientGone("left"))
        (await waiting).release(0)
        assert attempt.failed
        for turn in turns:
            turn.release(0)
        bench.check_empty()

    run(main)


def test_waiting_ends_in_time_with_one_timer_for_all() -> None:
    async def main() -> None:
        bench = Bench("p/0")
        turns = bench.fill()
        late = bench.wait(wait_until=30.0)
        soon = bench.wait(wait_until=10.0)
        await settle()
        bench.now = 9.9
        bench.turnstile.expire()
        await settle()
        assert bench.turnstile.waiting == 2
        bench.now = 10.0
        bench.turnstile.expire()
        with pytest.raises(Overloaded) as caught:
            await soon
        assert caught.value.retry_after == UNKNOWN_RETRY or caught.value.retry_after
        bench.now = 40.0
        bench.turnstile.expire()
        with pytest.raises(Overloaded):
            await late
        for turn in turns:
            turn.release(0)
        bench.check_empty()

    run(main)


def test_the_timer_runs_by_itself() -> None:
    async def main() -> None:
        bench = Bench("p/0")
        turns = bench.fill()
        waiting = bench.wait(wait_until=0.01)
        await settle()
        bench.now = 1.0
        with pytest.raises(Overloaded):
            await waiting
        for turn in turns:
            turn.release(0)
        bench.check_empty()

    run(main)


def test_what_an_answer_really_cost_moves_its_tenants_next_turn() -> None:
    async def main() -> None:
        bench = Bench("p/0")
        turns = bench.fill("x")
        first = bench.wait("a")
        waiting = [bench.wait("b") for _ in range(6)] + [bench.wait("a")]
        await settle()
        bench.end(turns.pop())
        turn = await first
        assert turn.replica_id is not None
        turn.opened(turn.replica_id)
        bench.fleet.running("p/0", 1)
        bench.end(turn, output=1000)  # it was expected to be 10
        for task in waiting:
            (await task).release(10)
            if task is waiting[-1]:
                break
        assert [task.done() for task in waiting] == [True] * 7
        for turn in turns:
            turn.release(0)
        bench.check_empty()

    run(main)


def test_a_flood_of_long_prompts_leaves_replicas_to_others_while_they_are_active() -> None:
    async def main() -> None:
        bench = Bench("p/0", "p/1", "p/2", "p/3")
        alone = [bench.turnstile.try_enter(bench.request("flood", prompt=30_000)) for _ in range(4)]
        assert {turn.replica_id for turn in alone if turn} == {"p/0", "p/1", "p/2", "p/3"}
        for turn in alone:
            assert turn is not None
            turn.release(1)
        bench.turnstile.active_elsewhere = [ActiveTenant("chat", 1, 1.0, 0.0)]
        bench.now = 1.0
        turns = [bench.turnstile.try_enter(bench.request("flood", prompt=30_000)) for _ in range(3)]
        lanes = {turn.replica_id for turn in turns if turn}
        assert (len(lanes), turns[2]) == (2, None)
        small = bench.turnstile.try_enter(bench.request("chat"))
        assert small is not None
        assert small.replica_id not in lanes
        # Once its prompt has been computed, the next may follow it.
        for turn in turns[:2]:
            assert turn is not None
            turn.opened(turn.replica_id or "")
            turn.started()
        again = bench.turnstile.try_enter(bench.request("flood", prompt=30_000))
        assert again is not None
        assert again.replica_id in lanes
        for turn in [*turns[:2], small, again]:
            assert turn is not None
            turn.release(0)
        bench.check_empty()

    run(main)


def test_reserved_room_stays_free_while_its_tier_is_active() -> None:
    async def main() -> None:
        bench = Bench("p/0", "p/1")
        bench.turnstile.active_elsewhere = [ActiveTenant("gold", 0, 1.0, 0.5)]
        turns = bench.fill("bronze")
        assert len(turns) == LIMIT
        golden = bench.fill("gold")
        assert len(golden) == LIMIT
        for turn in [*turns, *golden]:
            turn.release(0)
        bench.check_empty()

    run(main)


def test_a_retry_elsewhere_moves_what_is_being_computed() -> None:
    async def main() -> None:
        bench = Bench("p/0", "p/1")
        turn = bench.turnstile.try_enter(bench.request(prompt=500))
        assert turn is not None
        turn.opened(turn.replica_id or "")
        other = "p/1" if turn.replica_id == "p/0" else "p/0"
        turn.opened(other)
        assert turn.tenant.prefill == {other: 500}
        turn.started()
        turn.started()
        assert turn.tenant.prefill == {}
        turn.release(3)
        turn.opened("p/0")
        bench.check_empty()

    run(main)


def test_a_fruitless_look_at_many_tenants_is_not_repeated_at_every_report(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        bench = Bench("p/0")
        turns = bench.fill()
        tasks = []
        for number in range(20):
            request = bench.request(f"t{number}")
            tasks.append(asyncio.create_task(bench.turnstile.enter(request, Attempt())))
        await settle()
        looks = 0
        choose = bench.turnstile._choose

        def counted(*arguments: Any) -> Decision | None:
            nonlocal looks
            looks += 1
            return choose(*arguments)

        monkeypatch.setattr(bench.turnstile, "_choose", counted)
        for _ in range(50):
            bench.turnstile.pump()
        assert looks == 20
        bench.now = 1.0
        bench.end(turns.pop())
        await until(lambda: any(task.done() for task in tasks))
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Turn):
                result.release(0)
        for turn in turns:
            turn.release(0)
        bench.check_empty()

    run(main)


def test_tenants_are_active_while_they_have_work_and_a_little_longer() -> None:
    async def main() -> None:
        bench = Bench("p/0")
        turns = bench.fill("a")
        waiting = bench.wait("b", reserved=0.2, prompt=5000)
        await settle()
        bench.now = 50.0
        assert bench.turnstile.active_here() == [
            ActiveTenant("a", 1, 1.0, 0.0),
            ActiveTenant("b", 1, 1.0, 0.2),
        ]
        bench.turnstile.pump()
        assert bench.turnstile.active_here()[1].heavy
        for turn in turns:
            bench.end(turn)
        (await waiting).release(0)
        bench.now = 59.0
        assert len(bench.turnstile.active_here()) == 2
        bench.now = 61.0
        assert bench.turnstile.active_here() == []

    run(main)
