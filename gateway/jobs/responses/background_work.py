"""Background work of a worker: responses that run without a client's connection."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from protos.errors import Overloaded, PenstockError, ReplicaUnavailable

#: Seconds for stopped work to record its end.
_STOP_SECONDS: Final = 1.5


class BackgroundWork:
    """A bounded set of tasks, which end before the worker does."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: dict[asyncio.Task[None], Callable[[PenstockError], None]] = {}

    def check(self) -> None:
        """Raise Overloaded where there is no room for one more."""
        if len(self._running) >= self._most:
            raise Overloaded("The gateway is at its limit of background responses. Try again shortly.", retry_after=1.0)

    def start(self, work: Coroutine[Any, Any, None], stop: Callable[[PenstockError], None]) -> None:
        """Run a task; `stop` ends it soon, with an error."""
        task = asyncio.get_running_loop().create_task(work)
        self._running[task] = stop
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)

    async def aclose(self, seconds: float) -> None:
        """Wait so long for running tasks, then stop them with an error that they record."""
        if not self._running:
            return
        await asyncio.wait(list(self._running), timeout=seconds)
        for stop in list(self._running.values()):
            stop(ReplicaUnavailable("The gateway is shutting down."))
        if self._running:
            await asyncio.wait(list(self._running), timeout=_STOP_SECONDS)
        left = list(self._running)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
