"""Copy the store's audit trail into the journal: every change, with who made it and how.

Copying continues after the last change in the journal, so nothing is lost or repeated across restarts.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

import msgspec

from gateway.store.lua_script import Script
from gateway.tenancy.tenants.transactions import AUDIT, Storage
from observability.journal.changes import last_change
from observability.journal.entries import VERSION, ChangeEntry, JournalEvent, change_lines, event
from observability.journal.journal_sink import Journal
from observability.journal.settings import JournalSettings
from protos.errors import StoreUnavailable

log = logging.getLogger(__name__)

#: The name of the chain's folder.
KIND: Final = "admin"
POLL_SECONDS: Final = 1.0
_AT_ONCE: Final = 500
_WAIT_SECONDS: Final = 0.05
_GAP: Final = "the audit trail no longer has the change that was journalled last; some between may be missing"

_CHANGES = Script.load("gateway.telemetry", "lua/changes.lua")

_Stream = list[tuple[bytes, list[bytes]]]


class AdminChanges:
    """Copies the audit trail between `start` and `aclose`."""

    def __init__(self, storage: Storage, settings: JournalSettings) -> None:
        self._storage, self._folder = storage, settings.folder
        self._journal: Journal[ChangeEntry | JournalEvent] = Journal(settings, KIND, lines=change_lines)
        #: The id of the last change in the journal; None: not looked up yet.
        self._last: str | None = None
        self._logged = False
        self._task: asyncio.Task[None] | None = None

    def start(self, poll_seconds: float = POLL_SECONDS) -> None:
        """Begin; needs a running event loop."""
        self._journal.start()
        self._task = asyncio.create_task(self._run(poll_seconds))

    async def aclose(self) -> None:
        """End. The next process copies the rest. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            await self._journal.aclose()

    async def _run(self, poll_seconds: float) -> None:
        while True:
            try:
                while await self.copy():
                    pass
                self._logged = False
            except (StoreUnavailable, OSError) as error:
                self._log_once(f"admin changes cannot be journalled now, but will be: {error.__cause__ or error}")
            except Exception as error:
                self._log_once("admin changes cannot be journalled", error)
            await asyncio.sleep(poll_seconds)

    def _log_once(self, words: str, defect: Exception | None = None) -> None:
        if not self._logged:
            self._logged = True
            log.warning("%s", words, exc_info=defect)

    async def copy(self) -> bool:
        """Copy the changes since the last call; return whether there may be more.

        Raises:
        StoreUnavailable: The store did not answer.
        OSError: The journal cannot be read.
        """
        if self._last is None:
            self._last = await asyncio.to_thread(last_change, self._folder, KIND)
        found = await self._read(self._last or "-")
        # The last change is still in the trail, unless the trail was cut or replaced.
        known = not self._last or bool(found and found[0][0].decode() == self._last)
        if not found and not known:
            found = await self._read("-")
        entries: list[ChangeEntry | JournalEvent] = [
            _change(entry_id, fields) for entry_id, fields in found if entry_id.decode() != self._last
        ]
        if not entries:
            return False
        newest = found[-1][0].decode()
        if not known:
            entries.insert(0, event("changes_missing", time.time(), detail=_GAP))
        await self._journalled(entries)
        self._last = newest
        return len(found) > _AT_ONCE

    async def _read(self, oldest: str) -> _Stream:
        return cast("_Stream", await self._storage.run(_CHANGES, [AUDIT], [oldest, str(_AT_ONCE + 1)]))

    async def _journalled(self, entries: Sequence[ChangeEntry | JournalEvent]) -> None:
        """Hand entries over and wait until they are durable: the trail keeps them meanwhile."""
        journal = self._journal
        end = journal.written + journal.lost + len(entries)
        journal.take(entries)
        while journal.written + journal.lost < end:  # noqa: ASYNC110
            await asyncio.sleep(_WAIT_SECONDS)  # A thread writes, which no event of this loop tells of.


def _change(entry_id: bytes, fields: Sequence[bytes]) -> ChangeEntry:
    values = dict(zip(fields[::2], fields[1::2], strict=True))
    actor, action, subject = (
        values.get(name, b"").decode(errors="replace") for name in (b"actor", b"action", b"subject")
    )
    return ChangeEntry(
        VERSION,
        entry_id.decode(),
        datetime.fromtimestamp(int(entry_id.partition(b"-")[0]) / 1000, UTC),
        actor,
        action,
        subject,
        _json(values.get(b"before", b"")),
        _json(values.get(b"after", b"")),
    )


def _json(text: bytes) -> Any:
    """Decode a record, or return the text where it is not JSON."""
    try:
        return msgspec.json.decode(text) if text else None
    except msgspec.DecodeError:
        return text.decode(errors="replace")
