"""Write a worker's numbers to its file, once a second, from a thread: the event loop never waits for a disk."""

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from observability.metrics.metrics_folder import LOCK_SUFFIX, SUFFIX, OwnLock, replace
from observability.metrics.metrics_sink import MetricsSink
from observability.metrics.retire import retire
from observability.metrics.series_slots import claim
from observability.metrics.snapshot import Numbers, Snapshot
from observability.metrics.tenant_series import Wanted
from observability.ticks import until_tick

log = logging.getLogger(__name__)

WRITE_SECONDS: Final = 1.0
#: A worker without candidates still reads the list of tenants with series every so many rounds.
CLAIM_ROUNDS: Final = 10
_CLAIM_TRIES: Final = 40
_CLAIM_WAIT_SECONDS: Final = 0.005
#: Seconds that the last write may take.
CLOSE_SECONDS: Final = 2.0


class Source(Protocol):
    """A part of the worker with numbers of its own."""

    def collect(self, numbers: Numbers) -> None:
        """Add the numbers to `numbers`. Called on the event loop, once a second."""
        ...


class Publisher:
    """Publish one worker's numbers while `run` is running. Failed writes are counted, and logged once until one
    succeeds.
    """

    def __init__(
        self,
        folder: Path,
        sink: MetricsSink,
        sources: Sequence[Source],
        *,
        workers: int,
        tenants: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`workers` is the configured number of workers, `tenants` the number of tenants with series of their own."""
        self._folder = folder
        self._sink = sink
        self._sources = sources
        self._workers = workers
        self._tenants = tenants
        self._clock = clock
        self._started = time.time()
        self._worker = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._path = folder / f"{self._worker}{SUFFIX}"
        self._lock = OwnLock(self._path.with_suffix(LOCK_SUFFIX))
        self._thread = ThreadPoolExecutor(1, "metrics")
        self._failing = False
        self._retired = False
        self._closed = False
        self._failures = 0
        self._rounds = 0

    def counts(self) -> dict[str, float]:
        """Return how often the file could not be written."""
        return {"telemetry_dropped_total": self._failures}

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self.publish()
            await asyncio.sleep(until_tick(WRITE_SECONDS, self._clock()))

    async def aclose(self) -> None:
        """Write once more, and mark this worker as ended for the others. Idempotent; `run` must have ended."""
        if self._closed:
            return
        self._closed = True
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.publish()
                await self._in_thread(self._lock.release)
        except TimeoutError:
            log.warning("the last metrics of this worker are not written: %s is slow", self._folder)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def publish(self) -> None:
        """Run one round. Raises nothing but a cancellation."""
        self._rounds += 1
        try:
            if self._sink.tenants.has_candidates or self._rounds % CLAIM_ROUNDS == 1:
                wanted = self._sink.tenants.wanted()
                placed = await self._in_thread(lambda: self._claim(wanted))
                if placed is not None:
                    self._sink.settle(wanted, placed)
            data = await self._encoded()
            await self._in_thread(lambda: self._write(data))
        except OSError as error:
            self._failures += 1
            if not self._failing:
                log.error("metrics cannot be written, requests go on: %s: %s", self._folder, error.strerror or error)  # noqa: TRY400
            self._failing = True
        except Exception:
            self._failures += 1
            if not self._failing:
                log.exception("metrics cannot be gathered, requests go on")
            self._failing = True
        else:
            if self._failing:
                log.warning("metrics are written again")
            self._failing = False

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def _claim(self, wanted: Wanted) -> list[str] | None:
        self._hold()
        placed = claim(self._folder, wanted, self._tenants)
        for _ in range(_CLAIM_TRIES):
            if placed is not None:
                break
            # All workers of a machine share their ticks: another holds the lock, for a millisecond.
            time.sleep(_CLAIM_WAIT_SECONDS)
            placed = claim(self._folder, wanted, self._tenants)
        return placed

    def _write(self, data: bytes) -> None:
        self._hold()
        replace(self._path, data)

    def _hold(self) -> None:
        self._lock.hold()
        if not self._retired:
            # Only a starting worker retires ended ones: workers start as often as others end.
            retire(self._folder)
            self._retired = True

    async def _encoded(self) -> bytes:
        numbers = Numbers()
        for source in self._sources:
            source.collect(numbers)
            await asyncio.sleep(0)
        # Last, and with no request between it and the encoding: some tenants' numbers must not be shown yet.
        self._sink.collect(numbers)
        snapshot = Snapshot(
            worker=self._worker,
            pid=os.getpid(),
            parent=os.getppid(),
            workers=self._workers,
            started=self._started,
            written=self._clock(),
            values=numbers.values,
            distributions=numbers.distributions,
            recent=self._sink.recent(),
        )
        return msgspec.msgpack.encode(snapshot)
