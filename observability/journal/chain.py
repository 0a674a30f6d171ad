"""Write a chain: append linked blocks, seal segments and remove old ones. Every call may wait for the disk."""

import contextlib
import os
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from observability.journal.block import EVENTS, MOST_BYTES, Header, encode_block, frame_hash
from observability.journal.continuity import Continuity, Removed
from observability.journal.entries import JournalEvent, event, event_lines
from observability.journal.folder import sync_folder
from observability.journal.head import Head, write_head
from observability.journal.recovery import close_off, recover
from observability.journal.segment import Segment, read_segment, segment_path, segments
from observability.journal.signer import Signer

#: On request lines, higher levels of Zstandard gain nothing.
_LEVEL: Final = 1


class ChainReplaced(OSError):
    """Another process has removed or cut the files that this process writes to."""


class Chain:
    """Append blocks to the chain of a folder that this process holds. Every method but `close` raises OSError, and may
    be called again after that unless it was `ChainReplaced`.
    """

    def __init__(
        self,
        folder: Path,
        signer: Signer,
        *,
        known: Head | None = None,
        pending: Sequence[JournalEvent] = (),
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`known`: how far this process has written the chain already; `pending`: events for the next block."""
        import zstandard

        self._folder, self._signer = folder, signer
        self._wall, self._clock = wall, clock
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self._file: int | None = None
        self._began = clock()
        #: `position`: the last acknowledged block and the place of the next one.
        self.position, self._removed, found = recover(folder, signer, known, wall())
        #: Events for the next block.
        self.pending = [*pending, *found]

    @property
    def age(self) -> float:
        """Return the seconds since the first block of the segment; 0 where there is none."""
        return self._clock() - self._began if self.position.offset else 0.0

    def write_pending(self) -> None:
        """Write a block of the pending events, if there are any."""
        if self.pending:
            self.append(b"", 0)

    def append(self, lines: bytes, entries: int, events: Sequence[JournalEvent] = ()) -> int:
        """Write lines durably and return the bytes that they took. Where it raises, the lines are not there."""
        at, events = self.position, [*self.pending, *events]
        descriptor = self._ready()
        if at.offset == 0:
            events = [self._event("opened", self._removed, f"{socket.gethostname()}, process {os.getpid()}"), *events]
        raw = event_lines(events) + lines
        assert len(raw) <= MOST_BYTES
        frame = self._compressor.compress(raw)
        header = Header(
            flags=EVENTS if events else 0,
            segment=at.segment,
            chain=at.chain,
            key_id=self._signer.key_id,
            sequence=at.sequence + 1,
            written=int(self._wall() * 1e6),
            entries=entries + len(events),
            raw_bytes=len(raw),
            frame_bytes=len(frame),
            previous=at.link,
            frame_hash=frame_hash(frame),
        )
        block, link = encode_block(header, frame, self._signer)
        _write_all(descriptor, block, at.offset)
        os.fsync(descriptor)
        # A block that no head names does not count: if this fails, the next block takes its place.
        position = Head(at.chain, at.segment, at.offset + len(block), header.sequence, link)
        write_head(self._folder, position, self._signer)
        if at.offset == 0:
            self._began = self._clock()
        self.position, self.pending = position, []
        return len(block)

    def seal(self) -> None:
        """Seal the segment, if one has been begun."""
        at = self.position
        if at.offset > 0:
            self._ready()
            segment = Segment(at.chain, at.segment, True, self._path())
            try:
                close_off(segment)
            finally:
                if not segment.path.exists():
                    self.close()
                    self.position = at._replace(segment=at.segment + 1, offset=0)

    def sealed(self) -> list[Segment]:
        """List the chain's sealed segments, the oldest first."""
        return [each for each in segments(self._folder) if each.chain == self.position.chain and not each.open]

    def remove(self, oldest: Sequence[Segment], why: str) -> None:
        """Remove the oldest segments, after writing a block that names them and the damage found in them."""
        gone = [segment for segment in oldest if segment.number > self._removed.segment]
        if gone:
            continuity, faults = Continuity(*self._removed), list[JournalEvent]()
            for segment in gone:
                for found in continuity.follow(segment, read_segment(segment, self._signer)):
                    detail = f"segment {segment.number}, when it was removed: {found.problem}"
                    faults.append(self._event("damaged", self._removed, detail))
            removed = Removed(continuity.segment, continuity.sequence, continuity.link or self._removed.link)
            size = sum(segment.path.stat().st_size for segment in gone)
            detail = f"segments {gone[0].number} to {gone[-1].number}: {why}"
            self.append(b"", 0, [*faults, self._event("removed", removed, detail, size)])
            self._removed = removed
        for segment in oldest:
            segment.path.unlink(missing_ok=True)
        sync_folder(self._folder)

    def close(self) -> None:
        """Close the file; the segment stays open for the next process."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
        self._file = None

    def _event(self, name: str, removed: Removed, detail: str, size: int = 0) -> JournalEvent:
        """Make an event that describes removed segments, so that the chain can be verified without them."""
        return event(
            name,
            self._wall(),
            detail=detail,
            segment=self.position.segment,
            bytes=size,
            removed_segment=removed.segment,
            removed_sequence=removed.sequence,
            removed_link=removed.link.hex() if removed.segment else "",
        )

    def _path(self) -> Path:
        return segment_path(self._folder, self.position.chain, self.position.segment, sealed=False)

    def _ready(self) -> int:
        """Open the segment's file, which ends with the last acknowledged block."""
        path, offset = self._path(), self.position.offset
        if self._file is None:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if offset == 0:
                sync_folder(self._folder)
        status = os.fstat(self._file)
        if status.st_nlink == 0 or status.st_size < offset:
            raise ChainReplaced(None, "somebody else has removed or cut the segment", str(path))
        if status.st_size > offset:
            os.ftruncate(self._file, offset)
        return self._file


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
