"""Keeps a process's chain: claims it, opens it anew after a failure, seals and removes segments when it is time."""

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from observability.journal.chain import Chain, ChangedUnderneath
from observability.journal.entries import JournalEvent, event
from observability.journal.folder import (
    Place,
    Segment,
    chain_folders,
    claim,
    segments,
    take_folder,
)
from observability.journal.head import NAME
from observability.journal.resumption import not_found
from observability.journal.retention import due_for_removal
from observability.journal.settings import JournalSettings
from observability.journal.shipper import unshipped
from observability.journal.signer import Signer, made_key

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 60.0
#: Segments that are removed at one look, and how soon the next look is where there were more.
_MOST_REMOVED: Final = 4
_SOON_SECONDS: Final = 1.0


class Keeper:
    """Belongs to one thread. Every method but `close` raises OSError, and may be called again after that."""

    def __init__(
        self,
        settings: JournalSettings,
        kind: str,
        *,
        sealed: Callable[[], None] | None = None,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`kind` is what the chain's folder is called; `sealed` is called when a segment is ready to be shipped."""
        self._settings, self._kind, self._sealed = settings, kind, sealed
        self._wall, self._clock = wall, clock
        # A clock that is set must not make the journal look old: what is kept goes by the time that has passed.
        self._started = wall() - clock()
        self._look_at = clock() + _SOON_SECONDS
        self._place: Place | None = None
        self._signer = Signer()
        self._chain: Chain | None = None
        self._failed: Chain | None = None
        #: What is to be said in a new chain.
        self._unsaid: list[JournalEvent] = []
        self._told = False

    def open(self) -> None:
        """Make sure that the chain can be written to, and has said what was wrong."""
        if self._chain is not None:
            return
        settings = self._settings
        if settings.key_file is not None:
            self._signer = Signer(made_key(settings.key_file))
        if self._place is not None and not self._place.held():
            os.close(self._place.lock)
            if self._failed is not None:
                self._unsaid = [*self._failed.unsaid, *not_found(self._failed.position, None, self._wall())]
            self._place = self._failed = None
        if self._place is None:
            settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._place = claim(settings.folder, self._kind)
            if not self._place.made and not (self._place.folder / NAME).exists() and not segments(self._place.folder):
                detail = "the folder was there and had no chain: it was emptied, or a process was killed at its start"
                self._unsaid.append(event("begun", self._wall(), detail=detail))
        chain, self._failed, self._unsaid = self._opened(self._place.folder, self._failed, self._unsaid), None, []
        with self._guarded(chain):
            chain.tell()
        self._chain = chain

    def append(self, lines: bytes, entries: int, events: Sequence[JournalEvent]) -> int:
        """Make lines durable; gives how many bytes that took."""
        with self._in_use() as chain:
            return chain.append(lines, entries, events)

    def seal(self) -> None:
        """End the segment."""
        with self._in_use() as chain:
            chain.seal()
        if self._sealed is not None:
            self._sealed()

    def look_after(self) -> None:
        """Called several times a second: seals the segment when it is due, sometimes removes what is too old."""
        self.open()
        if self._chain is not None and self._chain.due():
            self.seal()
        if self._clock() < self._look_at:
            return
        self._look_at = self._clock() + LOOK_SECONDS
        assert self._place is not None
        with self._in_use():
            if not self._place.held():
                raise ChangedUnderneath(None, "somebody else has removed or exchanged it", str(self._place.folder))
        try:
            with self._in_use() as chain:
                self._remove(chain, self._place.folder)
            self._adopt_all()
        except OSError as error:
            # It can be written to nevertheless.
            if not self._told:
                log.error("cannot remove old segments of the audit journal: %s", error)  # noqa: TRY400
            self._told = True
        else:
            self._told = False

    def close(self) -> None:
        """Let everything go."""
        if self._chain is not None:
            self._chain.close()
        if self._place is not None:
            os.close(self._place.lock)
        self._chain = self._place = None

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[Chain]:
        self.open()
        assert self._chain is not None
        with self._guarded(self._chain) as chain:
            yield chain

    @contextlib.contextmanager
    def _guarded(self, chain: Chain) -> Iterator[Chain]:
        """A chain that has failed is opened anew the next time."""
        try:
            yield chain
        except BaseException:
            chain.close()
            self._chain, self._failed = None, chain
            raise

    def _opened(self, folder: Path, known: Chain | None = None, events: Sequence[JournalEvent] = ()) -> Chain:
        settings = self._settings
        return Chain(
            folder,
            self._signer,
            segment_bytes=settings.segment_bytes,
            segment_seconds=settings.segment_seconds,
            known=known,
            events=events,
            wall=self._wall,
            clock=self._clock,
        )

    def _due_for_removal(self, own: Sequence[Segment]) -> tuple[list[Segment], str]:
        settings = self._settings
        before = self._started + self._clock() - settings.keep_seconds
        return due_for_removal(own, settings.folder, keep_bytes=settings.keep_bytes, before=before)

    def _remove(self, chain: Chain, folder: Path) -> None:
        due, why = self._due_for_removal(chain.sealed())
        if due:
            now = due[:_MOST_REMOVED]
            waiting = {each.path for each in unshipped(folder)} if self._settings.ship else set()
            left = [str(each.number) for each in now if each.path in waiting]
            chain.remove(now, f"{why}; not shipped yet: {', '.join(left)}" if left else why)
        if len(due) > _MOST_REMOVED:
            self._look_at = self._clock() + _SOON_SECONDS

    def _adopt_all(self) -> None:
        assert self._place is not None
        for folder in chain_folders(self._settings.folder):
            if folder != self._place.folder:
                self._adopt(folder)

    def _adopt(self, folder: Path) -> None:
        """Seal and remove what is due in a chain to which no process writes any more."""
        own = segments(folder)
        last = own[-1] if own else None
        if last is None or not (self._left_open(last) or self._due_for_removal([e for e in own if not e.open])[0]):
            return
        lock = take_folder(folder)
        if lock is None:
            return
        try:
            with contextlib.closing(self._opened(folder)) as chain:
                chain.seal()
                self._remove(chain, folder)
                chain.seal()
        finally:
            os.close(lock)

    def _left_open(self, segment: Segment) -> bool:
        """Whether it should have been sealed by now."""
        if not segment.open:
            return False
        try:
            age = self._started + self._clock() - segment.path.stat().st_mtime
        except FileNotFoundError:
            return False
        return age > self._settings.segment_seconds + LOOK_SECONDS
