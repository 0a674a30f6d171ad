import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.queue.settings import Admission
from gateway.queue.shares import ActiveTenant
from gateway.queue.turn import Turn, TurnRequest
from gateway.queue.turnstile import HOLD_SECONDS, LONGEST_RETRY, SHORTEST_RETRY, UNKNOWN_RETRY, Turnstile
from protos.errors import ClientGone, Overloaded
from protos.types import Load, Role, Shape
from routing.dispatch import Attempt
from routing.policies.least_load import LeastLoad
from routing.policy import ReplicaView, RouteRequest
from tests.harness import bounded, until

LIMIT = 4


class FakeFleet:
    """Replicas of four slots; what is opened on them shows in their views at once, and ends when the test says so."""

    def __init__(self, *names: str, kv_blocks: int = 10_000) -> None:
        self.on_load: Callable[[], None] = lambda: None
        load = Load(kv_blocks_total=kv_blocks, workers=1)
        self.views = {
            name: ReplicaView(
                name, "p", Shape(), Role.BOTH, load, max_batch_size=LIMIT, kv_block_tokens=32, max_num_tokens=8192
            )
            for name in names
        }

    def candidates(self) -> list[ReplicaView]:
        return list(self.views.values())

    def report(self, name: str, **load: int) -> None:
        view = self.views[name]
        self.views[name] = replace(
            view, load=replace(view.load, **load), sent=0, sent_prompt_tokens=0, sent_kv_tokens=0
        )
        self.on_load()

    def running(self, name: str, more: int) -> None:
        """So many sequences more, of ten KV blocks each."""
        running = self.views[name].load.running + more
        self.report(name, running=running, kv_blocks_used=10 * running)


class Bench:
    """A turnstile, its fleet and its clock."""

    def __init__(self, *names: str, kv_blocks: int = 10_000, max_waiting: int = 100) -> None:
        self.now = 0.0
        self.fleet = FakeFleet(*names, kv_blocks=kv_blocks)
        admission = Admission(watermark=1.0, max_waiting=max_waiting)
        self.turnstile = Turnstile(self.fleet, LeastLoad(), admission, lambda: self.now)

    def request(self, tenant: str = "a", **fields: Any) -> TurnRequest:
        prompt, output = fields.pop("prompt", 10), fields.pop("output", 10)
        fixed: dict[str, Any] = {"rank": 1, "weight": 1.0, "reserved": 0.0, "n": 1, "max_waiting": 100}
        fixed |= {"wait_until": self.now + 60.0, "expected_output": output}
        return TurnRequest("r", tenant, route=RouteRequest("r", prompt, output), **(fixed | fields))

    def enter(self, tenant: str = "a", **fields: Any) -> Turn | None:
        """Without waiting, and on its way to its replica at once."""
        turn = self.turnstile.try_enter(self.request(tenant, **fields))
        if turn is not None and turn.replica_id is not None:
            turn.opened(turn.replica_id)
            self.fleet.running(turn.replica_id, turn.request.n)
        return turn

    def fill(self, tenant: str = "a") -> list[Turn]:
        turns = []
        while (turn := self.enter(tenant)) is not None:
            turns.append(turn)
        return turns

    def end(self, turn: Turn, output: int = 10) -> None:
        assert turn.replica_id is not None
        self.fleet.running(turn.replica_id, -turn.request.n)
        turn.release(output)

    def wait(self, tenant: str = "a", attempt: Attempt | None = None, **fields: Any) -> "asyncio.Task[Turn]":
        request = self.request(tenant, **fields)
        assert self.turnstile.try_enter(request) is None
        return asyncio.create_task(self.turnstile.enter(request, attempt or Attempt()))

    def check_empty(self) -> None:
        turnstile = self.turnstile
        assert (turnstile.waiting, turnstile.depths()) == (0, {})
        assert not turnstile._by_rank
        assert not turnstile._deadlines
        assert not turnstile._promised
        assert turnstile._alarm is None
        for tenant in turnstile._divider._tenants.values():
            assert (tenant.cost, tenant.turns, tenant.waiting, tenant.prefill) == (0, 0, 0, {})


def run(main: Callable[[], Awaitable[None]]) -> None:
    bounded(main, 10)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


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


@pytest.mark.parametrize("bound", [0, 2])
def test_a_tenants_own_bound_sheds_only_its_own(bound: int) -> None:
    async def main() -> None:
        bench = Bench("p/0")
        turns = bench.fill()
        kept = [bench.wait(max_waiting=bound) for _ in range(bound)]
        await settle()
        with pytest.raises(Overloaded):
            await bench.turnstile.enter(bench.request(max_waiting=bound), Attempt())
        other = asyncio.create_task(bench.turnstile.enter(bench.request("b"), Attempt()))
        await settle()
        assert not other.done()
        for task in [*kept, other]:
            task.cancel()
        await asyncio.gather(*kept, other, return_exceptions=True)
        for turn in turns:
            turn.release(0)
        bench.check_empty()

    run(main)


def test_beyond_the_workers_bound_the_newest_of_the_lowest_tier_is_shed() -> None:
    async def main() -> None:
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
        for turn in turns:
            turn.release(0)
        bench.check_empty()

    run(main)


@pytest.mark.parametrize(
    ("seconds", "waiting", "retry"), [(10.0, 10, 5.0), (10.0, 1, SHORTEST_RETRY), (1e6, 10, LONGEST_RETRY)]
)
def test_a_client_is_told_to_come_back_when_what_waits_will_have_passed(
    seconds: float, waiting: int, retry: float
) -> None:
    async def main() -> None:
        bench = Bench("p/0", max_waiting=waiting)
        for _ in range(20):
            turn = bench.enter()
            assert turn is not None
            bench.end(turn)
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

        def counted(*arguments: Any) -> str | None:
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
