"""The sink that writes the journal: a bounded queue, and behind it a thread that compresses and writes.

The event loop never waits for it. What the loop does itself is to encode: other sinks have just looked at the records,
so they are in the processor's caches, where a thread that came to them later would have to fetch them anew.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeVar

from observability.journal.entries import CHUNK, JournalEvent, Lines, event, request_lines
from observability.journal.keeper import Keeper
from observability.journal.settings import JournalSettings
from observability.journal.shipper import Shipper
from observability.record import RequestRecord

log = logging.getLogger(__name__)

T = TypeVar("T")

#: What waits for the disk at most, as records and as the bytes of their lines.
MOST_RECORDS: Final = 20_000
MOST_WAITING_BYTES: Final = 64 << 20
#: A block is written once its lines are this long, however young they are.
BLOCK_BYTES: Final = 4 << 20
#: A write that takes longer than this counts as a failure.
STALL_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 3.0
_TELL_SECONDS: Final = 60.0
#: While it cannot be written and no more can be gathered.
_PAUSE_SECONDS: Final = 0.0001


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
        """`kind` is what the chain's folder is called; `lines` encodes at most 64 values, and raises nothing."""
        self._settings, self._lines_of = settings, lines
        self._wall, self._clock = wall, clock
        then = "new requests are refused" if settings.refuse else "requests go on"
        self._then = f"{then} until it can be written"
        self._shipper = Shipper(settings.folder, settings.ship) if settings.ship else None
        sealed = self._shipper.wake if self._shipper is not None else None
        self._keeper = Keeper(settings, kind, sealed=sealed, wall=wall, clock=clock)
        self._queue: SimpleQueue[Lines | None] = SimpleQueue()
        #: Set where the writer is not to wait until the block's time.
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"journal-{kind}", daemon=True)
        self._ended: asyncio.Future[None] | None = None
        # Each number has one thread that changes it, so none needs a lock: these are `take`'s ...
        self._taken = self._taken_bytes = self._dropped = self._unusable = 0
        self._tell_dropped_at = self._told_stall = float("-inf")
        self._lost_since = 0.0
        self._closing = False
        # ... and these the writer's.
        self._done = self._done_bytes = 0
        self._noted = 0
        self._failures = 0
        self._failed: set[Callable[[], None]] = set()
        self._busy_since: float | None = None
        self._retry_at = 0.0
        #: Lines that wait for the block's time, how many, and since when.
        self._waiting: list[Lines] = []
        self._waiting_bytes = self._waiting_entries = 0
        self._waiting_since = 0.0
        #: Entries and bytes that are durable.
        self.written = self.written_bytes = 0

    def start(self) -> None:
        """Begin to write; before that, what is taken waits."""
        self._thread.start()
        if self._shipper is not None:
            self._shipper.start()

    def take(self, records: Sequence[T]) -> None:
        """Hand records over; those that do not fit are dropped and counted."""
        self._stalled()
        for start in range(0, len(records), CHUNK):
            chunk = records[start : start + CHUNK]
            waits = self._taken_bytes - self._done_bytes
            if self._closing or self._taken - self._done + len(chunk) > MOST_RECORDS or waits >= MOST_WAITING_BYTES:
                self._drop(len(chunk))
                continue
            lines = self._lines_of(chunk)
            if lines.unusable:
                self._note_loss()
                self._unusable += lines.unusable
            self._taken += lines.entries
            self._taken_bytes += len(lines.data)
            self._queue.put(lines)
            if waits + len(lines.data) >= BLOCK_BYTES or self._taken - self._done >= MOST_RECORDS // 4:
                self._hurry.set()

    @property
    def refusing(self) -> bool:
        """Whether new requests are to be refused, because what they do could not be recorded."""
        if not self._settings.refuse:
            return False
        return self._failing or self._stalled() or 2 * (self._taken - self._done) > MOST_RECORDS

    @property
    def _failing(self) -> bool:
        return bool(self._failed)

    @property
    def lost(self) -> int:
        """Records that were dropped."""
        return self._dropped + self._unusable

    def counts(self) -> Mapping[str, float]:
        """For the metrics, by their names."""
        return {
            "telemetry_dropped_total": self.lost,
            "journal_records_total": self.written,
            "journal_bytes_total": self.written_bytes,
            "journal_failures_total": self._failures,
            "journal_unwritten_records": self._taken - self._done + self._waiting_entries,
        }

    async def aclose(self) -> None:
        """Write what was taken and seal the segment, if the disk lets it be done within some seconds."""
        if self._ended is None:
            self._closing = True
            loop = asyncio.get_running_loop()
            ended = self._ended = loop.create_future()

            def wait() -> None:
                deadline = time.monotonic() + CLOSE_SECONDS
                self._thread.join(CLOSE_SECONDS)
                if self._shipper is not None:
                    self._shipper.close(deadline)
                # The loop may have been closed by somebody who waits no longer.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(ended.set_result, None)

            if self._thread.is_alive():
                self._queue.put(None)
                self._hurry.set()
                threading.Thread(target=wait, name="journal-close", daemon=True).start()
            else:
                ended.set_result(None)
        await asyncio.shield(self._ended)
        left = self._taken - self._done + self._waiting_entries
        if left:
            log.error("the audit journal could not be finished: %d records are not in it", left)

    def _drop(self, count: int) -> None:
        self._note_loss()
        self._dropped += count
        now = self._clock()
        if now >= self._tell_dropped_at:
            self._tell_dropped_at = now + _TELL_SECONDS
            log.error("the audit journal cannot be written fast enough; %d records were lost so far", self.lost)

    def _note_loss(self) -> None:
        """Remember when the first was lost of those that the journal has not said yet."""
        if self.lost == self._noted:
            self._lost_since = self._wall()

    def _stalled(self) -> bool:
        """Whether the disk has not answered for long; the writer, which waits for it, cannot say so."""
        busy = self._busy_since
        if busy is None or self._clock() - busy <= STALL_SECONDS:
            return False
        if busy != self._told_stall:
            self._told_stall = busy
            log.error("the disk of the audit journal has not answered for %.0f s; %s", STALL_SECONDS, self._then)
        return True

    def _run(self) -> None:
        """The writer thread's life."""
        closing = False
        self._attempt(self._flush)
        while not closing:
            closing = self._receive()
            now = self._clock()
            full = self._waiting_bytes >= BLOCK_BYTES
            old = self._waiting_entries and now - self._waiting_since >= self._settings.flush_seconds
            if (full or old or closing or self._failing) and now >= self._retry_at:
                self._attempt(self._flush)
            if not self._failing or (self._keeper.look_after in self._failed and now >= self._retry_at):
                self._attempt(self._keeper.look_after)
        self._attempt(self._flush)
        self._attempt(self._keeper.seal)
        if self._failing:
            # What was removed underneath is said in a new chain.
            self._attempt(self._keeper.seal)
        self._keeper.close()

    def _receive(self) -> bool:
        """Wait for something to do, and gather what has come; gives True when it is time to end."""
        now = self._clock()
        if self._waiting_bytes >= BLOCK_BYTES and self._failing:
            # What comes now stays in the queue, whose bounds count.
            time.sleep(max(0.0, min(self._retry_at - now, RETRY_SECONDS)) or _PAUSE_SECONDS)
            return self._closing
        try:
            if self._waiting_entries and not self._failing:
                # To wake up for each piece would cost more than to write it.
                self._hurry.wait(max(0.0, min(self._waiting_since + self._settings.flush_seconds - now, RETRY_SECONDS)))
                self._hurry.clear()
                lines = self._queue.get_nowait()
            else:
                lines = self._queue.get(timeout=RETRY_SECONDS)
            while lines is not None:
                self._gather(lines)
                if self._waiting_bytes >= BLOCK_BYTES:
                    return False
                lines = self._queue.get_nowait()
        except Empty:
            return False
        return True

    def _gather(self, lines: Lines) -> None:
        if not self._waiting_entries:
            self._waiting_since = self._clock()
        self._waiting.append(lines)
        self._waiting_bytes += len(lines.data)
        self._waiting_entries += lines.entries
        self._done += lines.entries
        self._done_bytes += len(lines.data)

    def _flush(self) -> None:
        """Write a block, and say in it what was lost before. Raises OSError."""
        lost, events = self.lost, list[JournalEvent]()
        if lost > self._noted:
            since = datetime.fromtimestamp(self._lost_since, UTC)
            detail = f"{lost - self._noted} records, the first at {since:%Y-%m-%d %H:%M:%S}"
            events.append(event("lost", self._wall(), records=lost - self._noted, detail=detail))
        if not self._waiting and not events:
            self._keeper.open()
        while self._waiting or events:
            count, size, entries = self._next_block()
            written = self._keeper.append(b"".join([each.data for each in self._waiting[:count]]), entries, events)
            self._noted, events = lost, []
            self.written += entries
            self.written_bytes += written
            del self._waiting[:count]
            self._waiting_bytes -= size
            self._waiting_entries -= entries

    def _next_block(self) -> tuple[int, int, int]:
        """How many of the waiting pieces make a block, their bytes and their entries."""
        size = entries = count = 0
        for piece in self._waiting:
            if count and size + len(piece.data) > BLOCK_BYTES:
                break
            count, size, entries = count + 1, size + len(piece.data), entries + piece.entries
        return count, size, entries

    def _attempt(self, action: Callable[[], None]) -> None:
        """Do something with the disk; a failure is told once and tried again later."""
        self._busy_since, before, was_failing = self._clock(), self.written_bytes, self._failing
        try:
            action()
        except OSError as error:
            self._failures += 1
            self._retry_at = self._clock() + RETRY_SECONDS
            self._failed.add(action)
            if not was_failing:
                words, folder = error.strerror or error, self._settings.folder
                # The system's words are all that an operator needs.
                log.error("cannot write the audit journal in %s: %s; %s", folder, words, self._then)  # noqa: TRY400
        except Exception:
            self._failures += 1
            self._retry_at = self._clock() + RETRY_SECONDS
            self._failed.add(action)
            log.exception("the audit journal failed")
        else:
            # A flush that had nothing to write does not show that another action would succeed now.
            self._failed = set() if self.written_bytes > before else self._failed - {action}
            if was_failing and not self._failing:
                log.warning("the audit journal is written again; %d records were lost so far", self.lost)
        finally:
            self._busy_since = None


def request_journal(settings: JournalSettings) -> Journal[RequestRecord]:
    """The journal of a worker's requests."""
    return Journal(settings, "worker", lines=request_lines)
