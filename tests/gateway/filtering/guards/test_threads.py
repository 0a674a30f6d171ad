"""Code that is not ours in threads of its own: it hangs, raises what it likes, or comes back late."""

import asyncio
import subprocess
import sys
import textwrap
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from gateway.config.safety.guards import Asking
from gateway.filtering.guards.bounded import BoundedGuard
from gateway.filtering.guards.threads import GuardThreads
from safety.guard import GuardFailed
from safety.match import Match
from tests.loops import until

TEXT = "a text that nobody may see"


class Held:
    """A call that waits in its thread until the test lets it go on."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.begun = 0
        self.threads: set[threading.Thread] = set()

    def __call__(self, text: str) -> object:
        self.begun += 1
        self.threads.add(threading.current_thread())
        assert self.let.wait(20)
        return text


async def problem_of(asking: Coroutine[Any, Any, object]) -> str:
    with pytest.raises(GuardFailed) as caught:
        await asking
    assert TEXT not in caught.value.problem
    return caught.value.problem


async def give_up(*tasks: "asyncio.Task[object]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_what_the_call_gives_comes_back() -> None:
    threads = GuardThreads(lambda text: [text, threading.current_thread().daemon], 2, "plugin")
    found = await asyncio.gather(*(threads.run(f"text {i}") for i in range(20)))
    assert found == [[f"text {i}", True] for i in range(20)]
    threads.close()


async def test_no_more_threads_than_there_may_be_and_the_rest_waits() -> None:
    held = Held()
    threads = GuardThreads(held, 2, "plugin")
    asking = [asyncio.ensure_future(threads.run(f"text {i}")) for i in range(6)]
    await until(lambda: held.begun == 2)
    held.let.set()
    assert await asyncio.gather(*asking) == [f"text {i}" for i in range(6)]
    assert len(held.threads) == 2
    threads.close()
    await until(lambda: not any(thread.is_alive() for thread in held.threads))


async def test_a_call_that_hangs_loses_its_thread_and_with_all_of_them_lost_nothing_is_waited_for() -> None:
    held = Held()
    threads = GuardThreads(held, 2, "plugin")
    first, second, third = (asyncio.ensure_future(threads.run(f"text {i}")) for i in range(3))
    await until(lambda: held.begun == 2)
    await give_up(first)
    assert threads.lost == 1
    assert not third.done()
    await give_up(second)
    assert threads.lost == 2
    # Who waited for a thread is told, and so is everybody who comes.
    assert "hangs" in await problem_of(_result(third))
    assert "hangs" in await problem_of(threads.run(TEXT))
    assert held.begun == 2
    held.let.set()
    await until(lambda: not threads.lost)
    assert await threads.run("later") == "later"
    assert held.begun == 3, "what was given up before it began never runs"
    threads.close()


async def _result(task: "asyncio.Task[object]") -> object:
    return await task


async def test_what_is_given_up_before_its_turn_is_never_called() -> None:
    held = Held()
    threads = GuardThreads(held, 1, "plugin")
    first, second = (asyncio.ensure_future(threads.run(f"text {i}")) for i in range(2))
    await until(lambda: held.begun == 1)
    await give_up(second)
    assert threads.lost == 0
    held.let.set()
    assert await first == "text 0"
    assert await threads.run("last") == "last"
    assert held.begun == 2
    threads.close()


@pytest.mark.parametrize(
    "error", [ValueError(TEXT), SystemExit(TEXT), KeyboardInterrupt(TEXT), GeneratorExit(), StopIteration(TEXT)]
)
async def test_whatever_it_raises_is_a_failure_without_text(error: BaseException) -> None:
    def call(text: str) -> object:
        if text == TEXT:
            raise error
        return text

    threads = GuardThreads(call, 1, "plugin")
    for _ in range(3):
        assert (await problem_of(threads.run(TEXT))).startswith(f"{type(error).__name__} in test_threads.py:")
    assert await threads.run("fine") == "fine", "the thread lives on"
    threads.close()


async def test_its_own_failure_keeps_its_words() -> None:
    def call(text: str) -> object:
        raise GuardFailed("its own words")

    threads = GuardThreads(call, 1, "plugin")
    assert await problem_of(threads.run(TEXT)) == "its own words"
    threads.close()


async def test_closing_tells_those_who_wait() -> None:
    held = Held()
    threads = GuardThreads(held, 1, "plugin")
    asking = [asyncio.ensure_future(threads.run(f"text {i}")) for i in range(3)]
    await until(lambda: held.begun == 1)
    threads.close()
    threads.close()
    for task in asking:
        assert await problem_of(_result(task)) == "it has been closed"
    assert await problem_of(threads.run(TEXT)) == "it has been closed"
    held.let.set()
    await until(lambda: not any(thread.is_alive() for thread in held.threads))
    assert held.begun == 1


async def test_under_the_bounds_of_a_judge() -> None:
    class GuardBackend:
        def __init__(self, held: Held) -> None:
            self.threads = GuardThreads(held, 2, "plugin")

        async def ask(self, text: str, prompt: str | None, tenant: str) -> object:
            await self.threads.run(text)
            return [Match(0, 1, "x")]

        async def aclose(self) -> None:
            self.threads.close()

    held = Held()
    guard = GuardBackend(held)
    bounded = BoundedGuard(guard, Asking(timeout_seconds=1.5, concurrency=8))
    problems = await asyncio.gather(*(problem_of(bounded.verdict(f"{TEXT} {i}")) for i in range(4)))
    assert set(problems) <= {"no verdict within 1.5 s", "every thread of it hangs in a call that came to no end"}
    await until(lambda: guard.threads.lost == 2)
    assert "hangs" in await problem_of(bounded.verdict(TEXT))
    held.let.set()
    await until(lambda: not guard.threads.lost)
    assert await BoundedGuard(guard, Asking(timeout_seconds=60.0)).verdict(TEXT) == [Match(0, 1, "x")]
    await bounded.aclose()


def test_a_call_that_hangs_does_not_keep_the_process_alive() -> None:
    program = textwrap.dedent(
        """
        import asyncio, threading
        from gateway.filtering.guards.threads import GuardThreads

        begun = threading.Event()

        def call(text):
            begun.set()
            threading.Event().wait()

        async def main():
            asking = asyncio.ensure_future(GuardThreads(call, 2, "plugin").run("text"))
            while not begun.is_set():
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

        asyncio.run(main())
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
