"""Reports of workers to the store, again and again, whatever becomes of one."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)


async def report_every(seconds: float, report: Callable[[], Awaitable[None]], what: str) -> None:
    """Report until cancelled. An error, which the log calls by `what`, ends one report and not those after it."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await report()
        except Exception:
            # Any error: a worker that never reports again would hide what its requests come to.
            log.exception("%s", what)
