"""The bounds of asking: a guard in the hands of the test, under a clock that stands still until it is moved."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from gateway.config.safety.guards import Asking
from gateway.filtering.guards.bounded import BoundedGuard
from safety.guard import Guard, GuardFailed
from safety.match import Match
from tests.loops import leftovers, until

TEXT = "a text that nobody may see"
FOUND = [Match(2, 6, "word", 0.5)]
#: Longer than any test; and one that is over as soon as the loop turns.
LONG, SHORT = 60.0, 0.5


class HeldGuard:
    """Answers `found`, or raises it, once the gate is open."""

    def __init__(self, found: object = FOUND, *, held: bool = False) -> None:
        self.found = found
        self.asked: list[tuple[str, str | None, str]] = []
        self.under_way = self.most = self.cancelled = 0
        self.closed = False
        self.gate = asyncio.Event()
        if not held:
            self.gate.set()

    async def ask(self, text: str, prompt: str | None, tenant: str) -> object:
        self.asked.append((text, prompt, tenant))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1
        if isinstance(self.found, BaseException):
            raise self.found
        return self.found

    async def aclose(self) -> None:
        self.closed = True


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def guard_of(guard: HeldGuard, clock: Callable[[], float] | None = None, **settings: Any) -> BoundedGuard:
    return BoundedGuard(guard, Asking(**({"timeout_seconds": LONG} | settings)), clock or Clock())


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[None]:
    """As `bounded`, and nothing may be complained of by the loop, such as an exception that nobody has seen."""

    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    yield
    await until(lambda: not leftovers())
    gc.collect()
    await asyncio.sleep(0)
    assert not complaints


async def problem_of(judging: Coroutine[Any, Any, object]) -> str:
    with pytest.raises(GuardFailed) as caught:
        await judging
    assert caught.value.problem == str(caught.value)
    assert TEXT not in caught.value.problem
    return caught.value.problem


async def test_a_verdict() -> None:
    async with running():
        guard = HeldGuard()
        bounded: Guard = guard_of(guard)
        assert await bounded.verdict(TEXT, "a prompt") == FOUND
        assert guard.asked == [(TEXT, "a prompt", "")]


async def test_nothing_is_asked_about_an_empty_text() -> None:
    async with running():
        guard = HeldGuard()
        assert await guard_of(guard).verdict("") == []
        assert not guard.asked


async def test_lone_surrogates_do_not_reach_the_guard_and_move_no_span() -> None:
    async with running():
        guard = HeldGuard([Match(3, 4, "last")])
        assert await guard_of(guard).verdict("a\ud800éz", "\udfff") == [Match(3, 4, "last")]
        assert guard.asked == [("a?éz", "?", "")]


async def test_a_guard_that_does_not_answer_in_time_is_cancelled() -> None:
    async with running():
        guard = HeldGuard(held=True)
        bounded = guard_of(guard, timeout_seconds=SHORT)
        assert await problem_of(bounded.verdict(TEXT)) == "no verdict within 0.5 s"
        await until(lambda: guard.cancelled == 1)


async def test_a_guard_that_does_not_heed_its_cancellation_holds_nobody_up() -> None:
    async with running():
        let = asyncio.Event()

        class Deaf(HeldGuard):
            async def ask(self, text: str, prompt: str | None, tenant: str) -> object:
                while not let.is_set():
                    try:
                        await let.wait()
                    except asyncio.CancelledError:
                        self.cancelled += 1
                return FOUND

        guard = Deaf()
        bounded = guard_of(guard, timeout_seconds=SHORT)
        assert "no verdict" in await problem_of(bounded.verdict(TEXT))
        await until(lambda: guard.cancelled == 1)
        let.set()


async def test_the_time_counts_while_a_turn_is_waited_for() -> None:
    async with running():
        guard = HeldGuard(held=True)
        bounded = guard_of(guard, concurrency=1, timeout_seconds=SHORT)
        problems = await asyncio.gather(*(problem_of(bounded.verdict(f"{TEXT} {i}")) for i in range(3)))
        assert set(problems) == {"no verdict within 0.5 s"}
        assert len(guard.asked) == 1
        guard.gate.set()
        # Those that waited left no turn taken.
        assert await guard_of(guard).verdict(TEXT) == FOUND
        assert await bounded.verdict(TEXT) == FOUND


async def test_no_more_questions_at_once_than_are_allowed() -> None:
    async with running():
        guard = HeldGuard(held=True)
        bounded = guard_of(guard, concurrency=3)
        asking = [asyncio.ensure_future(bounded.verdict(f"{TEXT} {i}")) for i in range(10)]
        await until(lambda: guard.under_way == 3)
        guard.gate.set()
        assert await asyncio.gather(*asking) == [FOUND] * 10
        assert guard.most == 3
        assert len(guard.asked) == 10


async def test_a_verdict_is_remembered_for_its_time() -> None:
    async with running():
        guard, clock = HeldGuard(), Clock()
        bounded = guard_of(guard, clock, cache_seconds=10.0)
        first = await bounded.verdict(TEXT)
        first.clear()  # whoever changes what they got changes nothing for others
        clock.now += 9.9
        assert await bounded.verdict(TEXT) == FOUND
        assert len(guard.asked) == 1
        clock.now += 0.1
        assert await bounded.verdict(TEXT) == FOUND
        assert len(guard.asked) == 2


async def test_that_there_is_nothing_is_remembered_too() -> None:
    async with running():
        guard = HeldGuard([])
        bounded = guard_of(guard)
        assert await bounded.verdict(TEXT) == await bounded.verdict(TEXT) == []
        assert len(guard.asked) == 1


async def test_no_more_verdicts_are_remembered_than_are_allowed() -> None:
    async with running():
        guard = HeldGuard()
        bounded = guard_of(guard, cache_size=2)
        for text in ("text 1", "text 2", "text 1", "text 3", "text 1", "text 2"):
            await bounded.verdict(text)
        # The second was forgotten for the third.
        assert [text for text, _, _ in guard.asked] == ["text 1", "text 2", "text 3", "text 2"]
        without = guard_of(guard, cache_size=0)
        for _ in range(3):
            await without.verdict(TEXT)
        assert [text for text, _, _ in guard.asked][4:] == [TEXT] * 3


async def test_what_is_asked_is_text_and_prompt_and_tenant_together() -> None:
    async with running():
        guard = HeldGuard([])
        bounded = guard_of(guard)
        asked = [("ab", None, ""), ("b", "a", ""), ("ab", "", ""), ("b", None, "a"), ("b", None, "a:"), ("b", "a", "a")]
        for question in asked * 2:
            await bounded.verdict(*question)
        assert guard.asked == asked


async def test_no_tenant_can_tell_what_another_one_asked() -> None:
    async with running():
        guard = HeldGuard(held=True)
        bounded = guard_of(guard)
        asking = [asyncio.ensure_future(bounded.verdict(TEXT, tenant=tenant)) for tenant in ("alice", "bob")]
        await until(lambda: guard.under_way == 2)
        guard.gate.set()
        await asyncio.gather(*asking)
        await bounded.verdict(TEXT, tenant="carol")
        assert [tenant for _, _, tenant in guard.asked] == ["alice", "bob", "carol"]


async def test_no_text_is_kept() -> None:
    async with running():
        bounded = guard_of(HeldGuard())
        text = "".join(["unique ", "text ", str(id(bounded))])
        await bounded.verdict(text, text + "!")
        await asyncio.sleep(0)
        gc.collect()
        gc.unfreeze()  # who holds something is not looked for among what is frozen
        assert [holder for holder in gc.get_referrers(text) if isinstance(holder, dict | list | tuple)] == []
        gc.freeze()
        other = guard_of(HeldGuard())
        await other.verdict(text)
        assert set(dict(bounded._cache.items())).isdisjoint(dict(other._cache.items())), "each has a key of its own"


async def test_a_question_under_way_is_asked_once() -> None:
    async with running():
        guard = HeldGuard(held=True)
        bounded = guard_of(guard)
        asking = [asyncio.ensure_future(bounded.verdict(TEXT)) for _ in range(5)]
        await until(lambda: guard.under_way)
        guard.gate.set()
        assert await asyncio.gather(*asking) == [FOUND] * 5
        assert len(guard.asked) == 1


async def test_who_leaves_does_not_take_the_others_question_along() -> None:
    async with running():
        guard = HeldGuard(held=True)
        bounded = guard_of(guard)
        first, second = (asyncio.ensure_future(bounded.verdict(TEXT)) for _ in range(2))
        await until(lambda: guard.under_way)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert first.cancelled()
        assert guard.under_way == 1
        guard.gate.set()
        assert await second == FOUND


async def test_with_the_last_who_waits_the_question_ends() -> None:
    async with running():
        guard = HeldGuard(held=True)
        bounded = guard_of(guard, concurrency=1)
        asking = [asyncio.ensure_future(bounded.verdict(TEXT)) for _ in range(3)]
        await until(lambda: guard.under_way)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await until(lambda: guard.cancelled == 1)
        # The same question is asked anew, and the turn is free.
        guard.gate.set()
        assert await bounded.verdict(TEXT) == FOUND
        assert len(guard.asked) == 2


@pytest.mark.parametrize(
    ("failure", "problem"),
    [
        (GuardFailed("its own words"), "its own words"),
        (ValueError(TEXT), "ValueError in test_bounded.py:"),
        (asyncio.CancelledError(), "it was given up"),
        (TimeoutError(), "TimeoutError in test_bounded.py:"),
    ],
)
async def test_failures_have_no_text_in_them_and_are_not_remembered(failure: BaseException, problem: str) -> None:
    async with running():
        guard = HeldGuard(failure, held=True)
        bounded = guard_of(guard)
        asking = [asyncio.ensure_future(problem_of(bounded.verdict(TEXT))) for _ in range(3)]
        await until(lambda: guard.under_way)
        guard.gate.set()
        for said in await asyncio.gather(*asking):
            assert said.startswith(problem)
        guard.found = FOUND
        assert await bounded.verdict(TEXT) == FOUND
        assert len(guard.asked) == 2


@pytest.mark.parametrize(
    "found",
    [
        None,
        "unsafe",
        {(0, 1, "x", 1.0)},
        [None],
        [(0, 1, "x")],
        [Match(-1, 2, "x")],
        [Match(0, len(TEXT) + 1, "x")],
        [Match(3, 3, "x")],
        [Match(4, 3, "x")],
        [(0.0, 1.0, "x", 1.0)],
        [(False, True, "x", 1.0)],
        [Match(5, 6, "x"), Match(0, 1, "x")],
        [Match(0, 3, "x"), Match(2, 4, "x")],
        [Match(0, 1, "")],
        [Match(0, 1, TEXT)],
        [Match(0, 1, "x" * 65)],
        [(0, 1, b"x", 1.0)],
        [Match(0, 1, "x", float("nan"))],
        [Match(0, 1, "x", float("inf"))],
        [Match(0, 1, "x", 1.5)],
        [Match(0, 1, "x", -0.5)],
        [(0, 1, "x", "1")],
        [(0, 1, "x", True)],
        [Match(i, i + 1, "x") for i in range(len(TEXT))] * 1000,
    ],
)
async def test_nonsense_is_a_failure(found: object) -> None:
    async with running():
        guard = HeldGuard(found)
        bounded = guard_of(guard)
        assert await problem_of(bounded.verdict(TEXT))
        assert await problem_of(bounded.verdict(TEXT))
        assert len(guard.asked) == 2


async def test_several_matches_of_one_stretch() -> None:
    async with running():
        whole = [Match(0, len(TEXT), "s1"), Match(0, len(TEXT), "s10")]
        assert await guard_of(HeldGuard(whole)).verdict(TEXT) == whole


async def test_closing_gives_up_what_is_under_way() -> None:
    async with running():
        guard = HeldGuard(held=True)
        bounded = guard_of(guard)
        asking = asyncio.ensure_future(problem_of(bounded.verdict(TEXT)))
        await until(lambda: guard.under_way)
        await bounded.aclose()
        assert guard.closed
        assert await asking == "it was given up"
        assert not leftovers()
