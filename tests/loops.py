"""Event loops of tests: a coroutine must end in time and leave no task behind, and a test may wait for a condition."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

#: What takes longer hangs. Whole gateways start in some tests, on machines that do other things beside them.
BOUND_SECONDS: Final = 60.0
#: How long a condition may take to come true that nothing stands in the way of, such as a process that starts, which
#: takes a second alone.
SOON_SECONDS: Final = 30.0


def bounded(main: Callable[[], Awaitable[None]]) -> None:
    """Run a coroutine in a loop of its own; it must end in time and leave no task behind.

    Raises:
        TimeoutError: It did not end in time.
        AssertionError: Tasks are left that do not end by themselves.
    """

    async def run() -> None:
        try:
            async with asyncio.timeout(BOUND_SECONDS) as bound:
                await main()
                await until(lambda: not leftovers(), lambda: f"left behind: {leftovers()}")
        except TimeoutError as error:
            if bound.expired():
                error.add_note(f"It has not ended within {BOUND_SECONDS:g} s.")
            raise
        # A test that expects a cancellation takes that of the bound for it.
        if bound.expired():
            raise TimeoutError(f"It has not ended within {BOUND_SECONDS:g} s.")

    asyncio.run(run())


def leftovers() -> set["asyncio.Task[Any]"]:
    """Every task but the caller's."""
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


async def until(
    condition: Callable[[], object],
    problem: Callable[[], str] = lambda: "it never came true",
    seconds: float | None = None,
) -> None:
    """Let the loop and its sockets run until a condition holds."""
    try:
        async with asyncio.timeout(SOON_SECONDS if seconds is None else seconds):
            while not condition():  # noqa: ASYNC110 (what is waited for has no event of its own)
                await asyncio.sleep(0.001)
    except TimeoutError:
        raise AssertionError(problem()) from None


async def seconds_until(condition: Callable[[], object]) -> float:
    """How long it took, in time in which this loop ran: a stall counts as one turn of it."""
    seconds, last = 0.0, time.monotonic()
    while not condition():
        await asyncio.sleep(0.001)
        now = time.monotonic()
        seconds += min(now - last, 0.02)
        last = now
    return seconds
