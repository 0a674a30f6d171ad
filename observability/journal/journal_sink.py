"""The telemetry sink of the journal: a bounded queue, and a thread that compresses and writes.

The event loop never waits for the disk, but it encodes the records: other sinks have just read them, so they are in the
processor's caches, where a thread would have to fetch them again.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Generic, TypeVar

from observability.journal.chain_writer import ChainWriter
from observability.journal.entries import CHUNK, JournalEvent, Lines, event, request_lines
from observability.journal.settings import JournalSettings
from observability.record import RequestRecord

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Bounds of the queue for the disk, as records and as bytes of their lines.
MOST_RECORDS: Final = 20_000
MOST_WAITING_BYTES: Final = 64 << 20
#: A block is written once its lines are this long, however young they are.
BLOCK_BYTES: Final = 4 << 20
#: A write that takes longer than this counts as a failure.
STALL_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 3.0
_LOG_SECONDS: Final = 60.0


class Journal(Generic[T]):
    """`take` and the properties belong to one thread, the event loop's; all else happens in a thread of its own."""

    def __init__(
        self,
        settings: JournalSettings,
        kind: str,
        *,
        lines: Callable[[Sequence[T]], Lines],
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`kind` is the prefix of the chain folder's name; `lines` encodes at most 64 values, and raises nothing."""
        self._settings, self._lines_of = settings, lines
        self._wall, self._clock = wall, clock
        then = "new requests are refused" if settings.refuse else "requests go on"
        self._then = f"{then} until it can be written"
        self._writer = ChainWriter(settings, kind, wall=wall, clock=clock)
        self._thread = threading.Thread(target=self._run, name=f"journal-{kind}", daemon=True)
        #: Events: something to write, write at once without waiting for the interval, the last write.
        self._has_work, self._flush, self._stop = threading.Event(), threading.Event(), threading.Event()
        self._queue: deque[Lines] = deque()
        # Each counter is changed by one thread, so none needs a lock: these by `take` ...
        self._taken = self._taken_bytes = self._dropped = self._unusable = 0
        self._log_dropped_at = self._logged_stall_at = float("-inf")
        self._lost_since = 0.0
        # ... and these by the writer thread.
        self._block: list[Lines] = []
        self._reported = self._failures = self._done_bytes = 0
        self._failing = False
        self._busy_since: float | None = None
        #: Entries and bytes that are durable.
        self.written = self.written_bytes = 0

    def start(self) -> None:
        """Begin to write; records taken before that wait."""
        self._thread.start()

    def take(self, records: Sequence[T]) -> None:
        """Queue records; those that do not fit are dropped and counted."""
        self._stalled()
        for start in range(0, len(records), CHUNK):
            chunk = records[start : start + CHUNK]
            waits, size = self._taken - self.written, self._taken_bytes - self._done_bytes
            if self._stop.is_set() or waits + len(chunk) > MOST_RECORDS or size >= MOST_WAITING_BYTES:
                self._drop(len(chunk))
                continue
            lines = self._lines_of(chunk)
            if lines.unusable:
                self._note_loss()
                self._unusable += lines.unusable
            self._taken += lines.entries
            self._taken_bytes += len(lines.data)
            self._queue.append(lines)
            if not self._has_work.is_set():
                self._has_work.set()
            if size + len(lines.data) >= BLOCK_BYTES or waits + lines.entries >= MOST_RECORDS // 4:
                self._flush.set()

    @property
    def refusing(self) -> bool:
        """Return whether new requests are to be refused because they could not be recorded."""
        if not self._settings.refuse:
            return False
        return self._failing or self._stalled() or 2 * (self._taken - self.written) > MOST_RECORDS

    @property
    def lost(self) -> int:
        """Return the number of dropped records."""
        return self._dropped + self._unusable

    def counts(self) -> Mapping[str, float]:
        """Return the counters for the metrics, by name."""
        return {
            "telemetry_dropped_total": self.lost,
            "journal_records_total": self.written,
            "journal_bytes_total": self.written_bytes,
            "journal_failures_total": self._failures,
            "journal_unwritten_records": self._taken - self.written,
        }

    async def aclose(self) -> None:
        """Write what was taken and seal the segment, if the disk lets it be done within some seconds."""
        closing = self._stop.is_set()
        for each in (self._stop, self._has_work, self._flush):
            each.set()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, CLOSE_SECONDS)
        if (left := self._taken - self.written) and not closing:
            log.error("the audit journal could not be finished: %d records are not in it", left)

    def _drop(self, count: int) -> None:
        self._note_loss()
        self._dropped += count
        now = self._clock()
        if now >= self._log_dropped_at:
            self._log_dropped_at = now + _LOG_SECONDS
            log.error("the audit journal cannot be written fast enough; %d records were lost so far", self.lost)

    def _note_loss(self) -> None:
        """Remember when the first record was lost of those that the journal has not reported yet."""
        if self.lost == self._reported:
            self._lost_since = self._wall()

    def _stalled(self) -> bool:
        """Return whether the disk has not answered for long; the writer thread, which waits for it, cannot say so."""
        busy = self._busy_since
        if busy is None or self._clock() - busy <= STALL_SECONDS:
            return False
        if busy != self._logged_stall_at:
            self._logged_stall_at = busy
            log.error("the disk of the audit journal has not answered for %.0f s; %s", STALL_SECONDS, self._then)
        return True

    def _run(self) -> None:
        """Run the writer thread."""
        self._attempt(self._writer.maintain)
        while not self._stop.is_set():
            if self._failing:
                self._stop.wait(RETRY_SECONDS)
            elif self._has_work.wait(RETRY_SECONDS):
                self._flush.wait(self._settings.flush_seconds)
            self._has_work.clear()
            self._flush.clear()
            self._attempt(self._writer.maintain)
        self._attempt(self._writer.seal)
        if self._failing:
            # A removal underneath is recorded in a new chain.
            self._attempt(self._writer.seal)
        self._writer.close()

    def _attempt(self, then: Callable[[], None]) -> None:
        """Write what waits and then call `then`; a failure is logged once and retried later."""
        self._busy_since = self._clock()
        try:
            self._write()
            then()
        except Exception as error:
            self._failures += 1
            if not self._failing:
                # For OSError the system's message suffices; any other exception is a defect.
                reason, trace = (error.strerror or error, None) if isinstance(error, OSError) else (error, error)
                message = "cannot write the audit journal in %s: %s; %s"
                log.error(message, self._settings.folder, reason, self._then, exc_info=trace)  # noqa: TRY400
            self._failing = True
        else:
            if self._failing:
                log.warning("the audit journal is written again; %d records were lost so far", self.lost)
            self._failing = False
        finally:
            self._busy_since = None

    def _write(self) -> None:
        """Write the queue in blocks; the first states what was lost before. Raises OSError."""
        while self._fill_block() or self.lost > self._reported:
            lost, events = self.lost, list[JournalEvent]()
            if lost > self._reported:
                since = datetime.fromtimestamp(self._lost_since, UTC)
                detail = f"{lost - self._reported} records, the first at {since:%Y-%m-%d %H:%M:%S}"
                events.append(event("lost", self._wall(), records=lost - self._reported, detail=detail))
            data, entries = b"".join([each.data for each in self._block]), sum(each.entries for each in self._block)
            self.written_bytes += self._writer.append(data, entries, events)
            self._reported, self._block = lost, []
            self.written += entries
            self._done_bytes += len(data)

    def _fill_block(self) -> bool:
        """Move lines from the queue into the block until it is full; return whether it has any."""
        size = sum(len(each.data) for each in self._block)
        while self._queue and size < BLOCK_BYTES:
            self._block.append(self._queue.popleft())
            size += len(self._block[-1].data)
        return bool(self._block)


def request_journal(settings: JournalSettings) -> Journal[RequestRecord]:
    """Make the journal of a worker's requests."""
    return Journal(settings, "worker", lines=request_lines)
