"""Publish the records of a worker's ended requests: gather them for a moment, then give them to every sink."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from observability.record import RequestRecord
from observability.sink import Sink
from observability.ticks import until_tick

log = logging.getLogger(__name__)

#: Records are gathered for so many seconds, or until so many wait: no more than stay in a processor's caches while
#: one sink after the other reads them.
GATHER_SECONDS: Final = 0.25
MOST_WAITING: Final = 128


class RecordPublisher:
    """The publisher of one worker. A sink that raises loses its batch alone; it is logged once until it works again."""

    def __init__(self, sinks: Sequence[Sink], clock: Callable[[], float] = time.monotonic) -> None:
        #: Whether anybody reads the records.
        self.publishes = bool(sinks)
        self._sinks = sinks
        self._clock = clock
        self._waiting: list[RequestRecord] = []
        self._failing: set[int] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to publish; needs a running event loop."""
        self._task = asyncio.create_task(self._run())

    def ended(self, record: RequestRecord) -> None:
        """Take a final record of a request that is over."""
        if not self.publishes:
            return
        record.ended = self._clock()
        self._waiting.append(record)
        if len(self._waiting) >= MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        """Give the gathered records to the sinks."""
        records, self._waiting = self._waiting, []
        if not records:
            return
        for index, sink in enumerate(self._sinks):
            try:
                sink.take(records)
                self._failing.discard(index)
            except Exception:
                if index not in self._failing:
                    log.exception("%s loses records of requests", type(sink).__name__)
                self._failing.add(index)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(until_tick(GATHER_SECONDS, time.monotonic()))
            self.flush()

    async def stop(self) -> None:
        """Publish the rest; the sinks may have records of others yet. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self.flush()

    async def aclose(self) -> None:
        """Publish the rest and close the sinks. Idempotent."""
        await self.stop()
        await asyncio.gather(*(sink.aclose() for sink in self._sinks), return_exceptions=True)
