"""Polls the library's queues of statistics and KV events for as long as the engine runs.

Such a queue is an iterator that ends once nothing has come for a while and stays ended until the next submit; before
the first request it is empty or refuses. A time limit of 0 raises an exception that the library does not handle.
"""

import asyncio
import json
from collections.abc import AsyncIterable, Callable, Mapping
from typing import Any

#: Seconds without an item after which an iterator ends.
PATIENCE = 1.0

#: Seconds for a task to end before it is cancelled again.
_AGAIN = 0.1

Open = Callable[[float], AsyncIterable[Any]]
Take = Callable[[Mapping[str, Any]], None]


async def follow(queue: Open, take: Take, *, busy: Callable[[], bool], submitted: asyncio.Event) -> None:
    """Pass every item to `take`, forever; `submitted` is set with every request and cleared here."""
    while True:
        submitted.clear()
        results = await drain(queue, take)
        undone = getattr(results, "mark_undone", None)
        if busy() and undone is not None:
            undone()  # a long prompt is still running
        else:
            await submitted.wait()


async def drain(queue: Open, take: Take, patience: float = PATIENCE) -> AsyncIterable[Any] | None:
    """Pass waiting items to `take` until none comes; return the iterator, None where there is none yet."""
    try:
        results = queue(patience)
    except AssertionError:
        return None
    async for item in results:
        take(json.loads(item) if isinstance(item, str | bytes) else item)
    return results


async def end(tasks: "set[asyncio.Future[None]]") -> None:
    """Cancel tasks until they have ended.

    One cancel is not enough: the library waits with `asyncio.wait_for`, which before Python 3.12 loses a cancellation
    that coincides with an item.
    """
    while tasks:
        for task in tasks:
            task.cancel()
        _, tasks = await asyncio.wait(tasks, timeout=_AGAIN)
