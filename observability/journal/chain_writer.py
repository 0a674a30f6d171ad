"""Own the chain of one process: claim its folder, reopen it after failures, rotate and expire segments."""

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from observability.journal.chain import Chain, ChainReplaced
from observability.journal.entries import JournalEvent, event
from observability.journal.folder import HeldFolder, chain_folders, claim, take_folder
from observability.journal.head import Head, write_head
from observability.journal.recovery import new_chain
from observability.journal.retention import due_for_removal, modified
from observability.journal.segment import Segment, segments
from observability.journal.settings import JournalSettings
from observability.journal.signer import Signer, create_key

log = logging.getLogger(__name__)

MAINTAIN_SECONDS: Final = 60.0
#: Segments removed in one round, and seconds until the next round where there are more.
_MOST_REMOVED: Final = 4
_SOON_SECONDS: Final = 1.0


class ChainWriter:
    """Belongs to one thread. Every method but `close` raises OSError, and may be called again after that."""

    def __init__(
        self,
        settings: JournalSettings,
        kind: str,
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`kind` is the prefix of the chain folder's name."""
        self._settings, self._kind = settings, kind
        self._wall, self._clock = wall, clock
        # Retention goes by a continuous clock: setting the clock must not make the journal look old.
        self._started = wall() - clock()
        self._maintain_at = clock() + _SOON_SECONDS
        self._signer = Signer()
        self._held: HeldFolder | None = None
        self._chain: Chain | None = None
        #: The end of a chain that was changed underneath, and the events that it had not written.
        self._known: Head | None = None
        self._pending: list[JournalEvent] = []
        self._logged = False

    def append(self, lines: bytes, entries: int, events: Sequence[JournalEvent] = ()) -> int:
        """Write lines durably; return the bytes that they took."""
        with self._use() as (_, chain):
            return chain.append(lines, entries, events)

    def seal(self) -> None:
        """Seal the segment."""
        with self._use() as (_, chain):
            chain.seal()

    def maintain(self) -> None:
        """Seal the segment when it is due; once a minute apply retention. Call it at least once a second."""
        settings = self._settings
        with self._use() as (held, chain):
            if chain.position.offset >= settings.segment_bytes or chain.age >= settings.segment_seconds:
                chain.seal()
            if self._clock() < self._maintain_at:
                return
            self._maintain_at = self._clock() + MAINTAIN_SECONDS
            if not held.held():
                raise ChainReplaced(None, "somebody else has removed or exchanged it", str(held.path))
        try:
            with self._use() as (held, chain):
                self._remove(chain)
            for folder in chain_folders(settings.folder):
                if folder != held.path:
                    self._adopt(folder)
        except OSError as error:
            # The chain can be written to nevertheless.
            if not self._logged:
                log.error("cannot remove old segments of the audit journal: %s", error)  # noqa: TRY400
            self._logged = True
        else:
            self._logged = False

    def close(self) -> None:
        """Close the chain and release the folder."""
        if self._chain is not None:
            self._chain.close()
        if self._held is not None:
            os.close(self._held.lock)
        self._chain = self._held = None

    @contextlib.contextmanager
    def _use(self) -> Iterator[tuple[HeldFolder, Chain]]:
        """Return the open chain with its pending events written. One that was changed underneath is reopened
        next time.
        """
        held, chain = self._open()
        try:
            chain.write_pending()
            yield held, chain
        except OSError as error:
            if isinstance(error, ChainReplaced) or not held.held():
                self._known, self._pending, self._chain = chain.position, chain.pending, None
                chain.close()
            raise

    def _open(self) -> tuple[HeldFolder, Chain]:
        if self._held is not None and self._chain is not None:
            return self._held, self._chain
        settings = self._settings
        if settings.key_file is not None:
            self._signer = Signer(create_key(settings.key_file))
        if self._held is not None and not self._held.held():
            os.close(self._held.lock)
            if self._known is not None:
                what = f"chain {self._known.chain.hex()} was removed or exchanged while it was written"
                detail = f"{what}; its last block was {self._known.sequence}"
                self._pending.append(event("missing", self._wall(), detail=detail))
            self._held = self._known = None
        if self._held is None:
            settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._held = claim(settings.folder, self._kind, lambda path: write_head(path, new_chain(), self._signer))
        self._chain = self._opened(self._held.path, self._known, self._pending)
        self._known, self._pending = None, []
        return self._held, self._chain

    def _opened(self, folder: Path, known: Head | None = None, pending: Sequence[JournalEvent] = ()) -> Chain:
        return Chain(folder, self._signer, known=known, pending=pending, wall=self._wall, clock=self._clock)

    def _due_for_removal(self, own: Sequence[Segment]) -> tuple[list[Segment], str]:
        settings = self._settings
        before = self._started + self._clock() - settings.keep_seconds
        return due_for_removal(own, settings.folder, keep_bytes=settings.keep_bytes, before=before)

    def _remove(self, chain: Chain) -> None:
        due, why = self._due_for_removal(chain.sealed())
        if due:
            chain.remove(due[:_MOST_REMOVED], why)
        if len(due) > _MOST_REMOVED:
            self._maintain_at = self._clock() + _SOON_SECONDS

    def _adopt(self, folder: Path) -> None:
        """Seal and remove what is due in a chain that no process writes any more."""
        own = segments(folder)
        old = self._started + self._clock() - self._settings.segment_seconds - MAINTAIN_SECONDS
        left_open = bool(own) and own[-1].open and modified(own[-1]) < old
        if not left_open and not self._due_for_removal([each for each in own if not each.open])[0]:
            return
        lock = take_folder(folder)
        if lock is None:
            return
        try:
            with contextlib.closing(self._opened(folder)) as chain:
                chain.write_pending()
                chain.seal()
                self._remove(chain)
                chain.seal()
        finally:
            os.close(lock)
