"""Take one snapshot a second for all viewers, while there are any; no viewer waits for another or delays the feed."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from observability.logs import RateLimit
from protos.errors import Overloaded

log = logging.getLogger(__name__)
log.addFilter(RateLimit(per_second=1))

#: Seconds between two snapshots.
SNAPSHOT_SECONDS: Final = 1.0
#: Seconds that the feed continues after the last viewer has left, so that a viewer who polls finds rates.
LINGER_SECONDS: Final = 5.0
MAX_VIEWERS: Final = 16


class LiveEvent(NamedTuple):
    """One snapshot, as values and as JSON, which is encoded once for all viewers. `number` grows with each."""

    number: int
    value: msgspec.Struct
    encoded: bytes


class FeedClosed(Exception):
    """There will be no more snapshots."""


class Feed:
    """Take snapshots while there are viewers. `read` is called about once a second, never twice at one time."""

    def __init__(
        self,
        read: Callable[[], Awaitable[msgspec.Struct]],
        *,
        seconds: float = SNAPSHOT_SECONDS,
        linger: float = LINGER_SECONDS,
    ) -> None:
        self._read = read
        self._seconds = seconds
        self._linger = linger
        self._latest: LiveEvent | None = None
        self._next: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._last_left_at = 0.0
        self._closed = False
        self.viewers = 0

    def check_room(self) -> None:
        """Raises Overloaded where there is no room for another viewer."""
        if self._closed:
            raise Overloaded("The admin API is shutting down.")
        if self.viewers >= MAX_VIEWERS:
            raise Overloaded(f"There are {MAX_VIEWERS} viewers already, which is as many as there may be.")

    @contextlib.contextmanager
    def viewer(self) -> Iterator[None]:
        """Count as a viewer until the block ends. Raises Overloaded."""
        self.check_room()
        self.viewers += 1
        if self._task is None or self._task.done():
            self._latest = None
            self._task = asyncio.get_running_loop().create_task(self._run())
        try:
            yield
        finally:
            self.viewers -= 1
            self._last_left_at = time.monotonic()

    async def after(self, number: int) -> LiveEvent:
        """Return the newest snapshot with a greater number, once there is one. Raises FeedClosed."""
        while self._latest is None or self._latest.number <= number:
            if self._closed:
                raise FeedClosed
            if self._next is None:
                self._next = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._next)
        return self._latest

    async def aclose(self) -> None:
        """End the feed and release all viewers. Idempotent."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._wake_viewers()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        number = 0
        while self.viewers or time.monotonic() - self._last_left_at < self._linger:
            due = loop.time() + self._seconds
            number += 1
            try:
                value = await self._read()
                self._latest = LiveEvent(number, value, msgspec.json.encode(value))
            except Exception:
                # The viewers see that nothing comes; the next snapshot may succeed.
                log.exception("cannot look at the gateway")
            else:
                self._wake_viewers()
            await asyncio.sleep(max(0.0, due - loop.time()))
        self._latest = None

    def _wake_viewers(self) -> None:
        if self._next is not None and not self._next.done():
            self._next.set_result(None)
        self._next = None
