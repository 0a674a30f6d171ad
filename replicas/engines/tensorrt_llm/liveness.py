"""A watchdog for the library: an engine can be wedged or dead without an error on any stream."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from replicas.engines.tensorrt_llm import polling

log = logging.getLogger(__name__)

#: Seconds between checks.
TICK_SECONDS = 1.0


class EngineLost(RuntimeError):
    """The library's executor is gone; the process must be restarted."""


async def watch(
    *,
    probe: Callable[[], Awaitable[None]],
    heard_at: Callable[[], float],
    shut_down: Callable[[], bool],
    quiet_seconds: float,
    timeout_seconds: float,
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
) -> None:
    """Watch forever. After `quiet_seconds` without output of any request, `probe` must answer in time.

    Raises EngineLost. A probe that raises counts as unanswered.
    """
    asked: asyncio.Future[None] | None = None
    asked_at = 0.0
    try:
        while True:
            await sleep(TICK_SECONDS)
            now = clock()
            if shut_down():
                raise EngineLost("the executor has shut down")
            if asked is None:
                if now - heard_at() >= quiet_seconds:
                    asked, asked_at = asyncio.ensure_future(probe()), now
            elif asked.done():
                error = asked.exception()
                if error is not None:
                    raise EngineLost("a probe failed") from error
                asked = None
            elif now - max(asked_at, heard_at()) >= timeout_seconds:
                raise EngineLost(f"no answer to a probe within {timeout_seconds:g} s")
    finally:
        if asked is not None and not asked.done():
            await polling.end({asked})
