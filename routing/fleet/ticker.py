"""One timer for all fleets of a process: hundreds of timers would cost more than what they are for."""

import asyncio
import logging
from collections.abc import Callable

from routing.health.patience import TICK_SECONDS

log = logging.getLogger(__name__)


class Ticker:
    """Calls whoever has joined every TICK_SECONDS in which the event loop ran. Needs a running loop."""

    def __init__(self) -> None:
        self._ticks: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None

    def join(self, tick: Callable[[], None]) -> None:
        """Call `tick` from now on."""
        self._ticks.append(tick)
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def leave(self, tick: Callable[[], None]) -> None:
        """Call `tick` no more."""
        self._ticks.remove(tick)

    async def aclose(self) -> None:
        """End the timer."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            # A sleep for each tick, so that a stall of the loop counts as one (routing/health/patience.py).
            await asyncio.sleep(TICK_SECONDS)
            for tick in list(self._ticks):
                try:
                    tick()
                except Exception:
                    # Any exception: a fleet without ticks is worse than one missed tick.
                    log.exception("looking after the replicas")
