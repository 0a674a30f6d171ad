"""The segments of one process, each block linked to the one before it. Everything here may wait for the disk."""

import contextlib
import os
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from observability.journal.block import EVENTS, LAST, MOST_BYTES, Header, frame_hash, packed
from observability.journal.entries import JournalEvent, event, event_lines
from observability.journal.folder import Segment, segment_path, segments, sync_folder
from observability.journal.head import NAME, Head, make_head, read_head, write_head
from observability.journal.reading import read_segment
from observability.journal.resumption import Removed, close_off, not_found, resume, resume_known
from observability.journal.signer import Signer

#: On lines of requests, higher levels of Zstandard gain nothing.
_LEVEL: Final = 1


class ChangedUnderneath(OSError):
    """Somebody else has removed or changed what this process writes to."""


class Chain:
    """Appends blocks to the chain of a folder that this process holds. Every method raises OSError; after that the
    chain is of no more use but for `close` and `position`.
    """

    def __init__(
        self,
        folder: Path,
        signer: Signer,
        *,
        segment_bytes: int,
        segment_seconds: float,
        known: "Chain | None" = None,
        events: Sequence[JournalEvent] = (),
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`known` is this process's chain of the same folder that failed; `events` are said in the next block."""
        import zstandard

        self._folder, self._signer = folder, signer
        self._segment_bytes, self._segment_seconds = segment_bytes, segment_seconds
        self._wall, self._clock = wall, clock
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self._file: int | None = None
        #: The last durable block, and where the next one goes.
        self.position: Head
        #: The block before that one.
        self._before: Head
        self._removed: Removed
        #: What is to be said in the next block.
        self._events: list[JournalEvent]
        #: When the segment's first block was written.
        self._began: float
        #: Whether the segment has its last block and not its last name.
        self._sealed = False
        if known is not None and resume_known(folder, known.position):
            self.position, self._before, self._removed = known.position, known._before, known._removed
            self._events, self._sealed, self._began = [*known._events, *events], known._sealed, known._began
        else:
            self.position, self._before, self._removed, found = resume(folder, signer, wall())
            if known is not None:
                found += not_found(known.position, self.position, wall())
            self._events = [*(known._events if known is not None else ()), *events, *found]
            self._began = clock()
        #: None: what is there is not what is to be there, and the next block's head is put in its place.
        self._head: int | None = self._open_head()

    @property
    def unsaid(self) -> list[JournalEvent]:
        """What was to be said in the next block."""
        return self._events

    def tell(self) -> None:
        """Say it, if there is anything."""
        if self._events:
            self.append(b"", 0)

    def close(self) -> None:
        """Let the files go; the segment stays open for the next."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
        self._file = None
        self._drop_head()

    def append(self, lines: bytes, entries: int, events: Sequence[JournalEvent] = ()) -> int:
        """Make lines durable, and give how many bytes that took. Where it raises, they are not there."""
        self._finish_seal()
        return self._write(lines, entries, [*self._events, *events], 0)

    def due(self) -> bool:
        """Whether the segment is to be sealed."""
        old = self._clock() - self._began >= self._segment_seconds
        return self.position.offset > 0 and (self.position.offset >= self._segment_bytes or old)

    def seal(self) -> None:
        """End the segment, if one has been begun."""
        if self.position.offset > 0:
            if not self._sealed:
                self._write(b"", 0, [*self._events, self._event("sealed")], LAST)
                self._sealed = True
            self._finish_seal()

    def sealed(self) -> list[Segment]:
        """The chain's segments that are complete, the oldest first."""
        return [each for each in segments(self._folder) if each.chain == self.position.chain and not each.open]

    def remove(self, oldest: Sequence[Segment], why: str) -> None:
        """Remove the oldest segments, which the journal says first."""
        gone, before = [segment for segment in oldest if segment.number > self._removed.segment], self._removed
        try:
            faults = [fault for segment in gone for fault in self._pass_by(segment)]
            if gone:
                names = f"segments {gone[0].number} to {gone[-1].number}: {why}"
                size = sum(segment.path.stat().st_size for segment in gone)
                self.append(b"", 0, [*faults, self._event("removed", detail=names, bytes=size)])
        except OSError:
            # It is to be said when it is tried again.
            self._removed = before
            raise
        for segment in oldest:
            segment.path.unlink(missing_ok=True)
        sync_folder(self._folder)

    def _pass_by(self, segment: Segment) -> list[JournalEvent]:
        """Count a segment as removed, and give what is wrong with it, which nobody could see afterwards."""
        contents, before = read_segment(segment.path, self._signer), self._removed
        blocks = contents.blocks
        last = (blocks[-1].header.sequence, blocks[-1].link) if blocks else before[1:]
        self._removed = Removed(segment.number, *last)
        if segment.number > before.segment + 1:
            detail = f"segments {before.segment + 1} to {segment.number - 1} were gone before they were to be removed"
            return [self._event("missing", detail=detail)]
        links = [before.link, *(block.link for block in blocks)]
        linked = all(block.header.previous == link for block, link in zip(blocks, links, strict=False))
        if contents.damages or not contents.sealed or not linked:
            return [self._event("damaged", detail=f"segment {segment.number} was not whole when it was removed")]
        return []

    def _event(self, name: str, **fields: object) -> JournalEvent:
        """An event that says of removed segments what is known, for whoever checks the chain without them."""
        removed = self._removed
        known = {"removed_segment": removed.segment, "removed_sequence": removed.sequence}
        link = removed.link.hex() if removed.segment else ""
        return event(name, self._wall(), segment=self.position.segment, removed_link=link, **known, **fields)

    def _write(self, lines: bytes, entries: int, events: list[JournalEvent], flags: int) -> int:
        at = self.position
        descriptor = self._ready()
        if at.offset == 0:
            who = f"{socket.gethostname()}, process {os.getpid()}"
            events = [self._event("opened", detail=who), *events]
        raw = event_lines(events) + lines
        assert len(raw) <= MOST_BYTES
        frame = self._compressor.compress(raw)
        header = Header(
            flags=flags | (EVENTS if events else 0),
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
        block, link = packed(header, frame, self._signer)
        _write_all(descriptor, block, at.offset)
        os.fsync(descriptor)
        if at.offset == 0:
            self._began = self._clock()
        self.position = Head(at.chain, at.segment, at.offset + len(block), header.sequence, link)
        self._before = at
        self._events = []
        self._say_head(durable=at.offset == 0 or bool(flags & LAST))
        return len(block)

    def _ready(self) -> int:
        """The segment's file, of which nobody else has changed anything."""
        at = self.position
        path = segment_path(self._folder, at.chain, at.segment, sealed=False)
        if self._file is None:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if at.offset == 0:
                sync_folder(self._folder)
        status = os.fstat(self._file)
        if status.st_nlink == 0 or status.st_size != at.offset:
            raise ChangedUnderneath(None, "somebody else has removed or changed the segment", str(path))
        return self._file

    def _finish_seal(self) -> None:
        if not self._sealed:
            return
        at = self.position
        path = segment_path(self._folder, at.chain, at.segment, sealed=False)
        close_off(Segment(at.chain, at.segment, True, path))
        if self._file is not None:
            os.close(self._file)
        self._file, self._sealed = None, False
        self.position = at._replace(segment=at.segment + 1, offset=0)

    def _open_head(self) -> int | None:
        """The head file. Where it does not say what this chain knows it stays as it is, until a block says that."""
        at = self.position
        try:
            found = read_head(self._folder, self._signer)
        except ValueError:
            return None
        if found is None:
            if at.sequence > 0 or segments(self._folder):
                return None
            make_head(self._folder, at, self._before, self._signer)
        elif not found.whole or (found.head.chain, *found.head[3:]) != (at.chain, *at[3:]):
            return None
        return os.open(self._folder / NAME, os.O_RDWR | os.O_CLOEXEC)

    def _say_head(self, *, durable: bool) -> None:
        """The block is durable by now. A head that cannot be written is missed by those who check the chain."""
        try:
            if self._head is None or os.fstat(self._head).st_nlink == 0:
                self._drop_head()
                make_head(self._folder, self.position, self._before, self._signer)
                self._head = os.open(self._folder / NAME, os.O_RDWR | os.O_CLOEXEC)
                return
            write_head(self._head, self.position, self._signer)
            if durable:
                os.fsync(self._head)
        except OSError:
            self._drop_head()

    def _drop_head(self) -> None:
        if self._head is not None:
            with contextlib.suppress(OSError):
                os.close(self._head)
        self._head = None


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
