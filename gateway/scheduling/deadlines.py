"""The deadlines of waiting requests, with one timer for all of them."""

import asyncio
import heapq
import itertools
from collections.abc import Callable

from gateway.scheduling.waiter import Waiter

#: Deadlines of requests that wait no longer are kept until they are more than the others and this many.
MOST_STALE = 8


class Deadlines:
    """Calls `late` with each request that still waits when its time is up."""

    def __init__(self, clock: Callable[[], float], late: Callable[[Waiter], None]) -> None:
        self._clock = clock
        self._late = late
        self._heap: list[tuple[float, int, Waiter]] = []
        self._numbers = itertools.count()
        self._alarm: asyncio.TimerHandle | None = None

    def add(self, waiter: Waiter, waiting: int) -> None:
        """Add one of `waiting` requests."""
        if len(self._heap) > 2 * waiting + MOST_STALE:
            self._heap = [deadline for deadline in self._heap if deadline[2].entry.waiting]
            heapq.heapify(self._heap)
        heapq.heappush(self._heap, (waiter.until, next(self._numbers), waiter))
        if self._alarm is None or self._heap[0][2] is waiter:
            self._arm(waiter.until - self._clock())

    def expire(self) -> None:
        """Take those whose time is up; called by the timer."""
        now = self._clock()
        while self._heap and (self._heap[0][0] <= now or not self._heap[0][2].entry.waiting):
            waiter = heapq.heappop(self._heap)[2]
            if waiter.entry.waiting:
                self._late(waiter)
        self._alarm = None
        if self._heap:
            self._arm(self._heap[0][0] - now)

    def clear(self) -> None:
        """Forget all: nothing waits."""
        self._heap.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _arm(self, seconds: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_later(max(0.0, seconds), self.expire)
