"""The section `observability.journal`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from observability.journal.settings import JournalSettings

KEY_FILE: Final = "journal.key"
_FOLDER: Final = "journal"
_DAY_SECONDS: Final = 86_400.0


class Journal(Record, frozen=True, kw_only=True):
    """The audit journal: an entry for each request and each admin change, on local disk."""

    enabled: Annotated[bool, Meta(description="Whether it is kept.")] = True
    folder: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="Where it lies, relative to this file's folder; unset: `journal` in `state`."),
    ] = None
    keyed: Annotated[
        bool,
        Meta(
            description="Whether its chain is made with the key in `journal.key` in `state`, which the first start "
            "makes: who can write the journal and does not have the key cannot change it unnoticed."
        ),
    ] = True
    flush_seconds: Annotated[
        float,
        Meta(
            ge=0.01,
            le=60,
            description="Time for which entries gather before they are written and synchronized, in seconds; what is "
            "younger, by a quarter of a second more, is lost when the process is killed.",
        ),
    ] = 0.5
    segment_bytes: Annotated[
        int, Meta(ge=1 << 16, le=1 << 30, description="Longest segment, in bytes; then the next one is begun.")
    ] = 64 << 20
    segment_seconds: Annotated[
        float, Meta(ge=1, le=7 * _DAY_SECONDS, description="Oldest that an open segment gets, in seconds.")
    ] = 3600.0
    keep_bytes: Annotated[
        int,
        Meta(ge=1 << 20, le=1 << 50, description="Most bytes of all segments; beyond, the oldest are removed."),
    ] = 10 << 30
    keep_days: Annotated[float, Meta(gt=0, le=36_500, description="Days after which a sealed segment is removed.")] = (
        90.0
    )
    on_full: Annotated[
        Literal["continue", "refuse"],
        Meta(
            description="What happens while the disk takes nothing: `continue` serves requests, and what does not fit "
            "into memory is counted and not recorded; `refuse` answers new requests with 503."
        ),
    ] = "continue"


def journal_problems(journal: Journal, where: str) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each violated rule."""
    if journal.keep_bytes < 2 * journal.segment_bytes:
        yield f"{where}.keep_bytes", "must be at least twice segment_bytes"


def with_absolute_journal(journal: Journal, folder: Path) -> Journal:
    """Give the settings with the journal's folder, if relative, under `folder`."""
    if journal.folder is None:
        return journal
    return msgspec.structs.replace(journal, folder=str((folder / journal.folder).resolve()))


def journal_settings(journal: Journal, state: Path) -> JournalSettings:
    """Convert to the journal's own settings; `state` is the state directory."""
    return JournalSettings(
        folder=state / _FOLDER if journal.folder is None else Path(journal.folder),
        key_file=state / KEY_FILE if journal.keyed else None,
        flush_seconds=journal.flush_seconds,
        segment_bytes=journal.segment_bytes,
        segment_seconds=journal.segment_seconds,
        keep_bytes=journal.keep_bytes,
        keep_seconds=journal.keep_days * _DAY_SECONDS,
        refuse=journal.on_full == "refuse",
    )
