"""Recover a chain after a crash or a stop: find the next block's place and what is missing before it."""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from observability.journal.block import FIRST_LINK, Block, scan
from observability.journal.continuity import Removed, last_removed
from observability.journal.entries import JournalEvent, event
from observability.journal.folder import sync_folder
from observability.journal.head import Head, read_head
from observability.journal.segment import Segment, segments
from observability.journal.signer import Signer


class Recovery(NamedTuple):
    """The last block and the next one's place, what retention has removed, and events for the next block."""

    position: Head
    removed: Removed
    events: list[JournalEvent]


def new_chain() -> Head:
    """Return the state of a chain without blocks."""
    return Head(secrets.token_bytes(8), 1, 0, 0, FIRST_LINK)


def close_off(segment: Segment) -> None:
    """Rename a segment to its sealed name and make it read-only. Raises OSError."""
    sealed = segment.sealed().path
    segment.path.rename(sealed)
    sealed.chmod(0o400)
    sync_folder(sealed.parent)


def recover(folder: Path, signer: Signer, known: Head | None, now: float) -> Recovery:
    """Find the end of the chain in a folder that this process holds. A torn tail behind it is overwritten.

    Any other damage stays on disk for inspection. `known`: how far this process itself has written the chain;
    None: the head decides.

    Raises:
        OSError: The folder cannot be read or written.
    """
    head, why, events = known, "is gone", list[JournalEvent]()
    if head is None:
        try:
            head = read_head(folder, signer)
        except ValueError as error:
            why = str(error)
    found, believe = segments(folder), head is None
    if head is None:
        detail = f"the head file {why}: blocks may be missing before this one"
        events.append(event("missing", now, detail=detail))
        newest = max(found, key=lambda each: each.path.stat().st_mtime, default=None)
        head = new_chain() if newest is None else Head(newest.chain, newest.number, 0, 0, FIRST_LINK)
    own = [segment for segment in found if segment.chain == head.chain]
    removed, sizes = last_removed(own, signer), {segment.number: segment.path.stat().st_size for segment in own}
    if sizes.get(head.segment, 0) < head.offset:
        detail = f"the end is cut: block {head.sequence} was acknowledged and is not there"
        events.append(event("missing", now, detail=detail, segment=head.segment))
    end = _end([segment for segment in own if segment.number >= head.segment], head, signer, believe=believe)
    number = max([*sizes, end.segment if end.sequence else 0])
    if own and own[-1].open:
        torn = sizes[number] - end.offset if own[-1].number == number == end.segment else -1
        if torn >= 0 and not believe:
            if torn:
                # The block with the event takes its place.
                detail = "a torn tail was cut off"
                events.append(event("repaired", now, detail=detail, segment=number, bytes=torn))
            return Recovery(end, removed, events)
        close_off(own[-1])
    return Recovery(end._replace(segment=number + 1, offset=0), removed, events)


def _end(newest: Sequence[Segment], head: Head, signer: Signer, *, believe: bool) -> Head:
    """Find the last block that follows the head: the process may have ended before a head named it. `believe`: there is
    no usable head, so all blocks count.
    """
    for segment in newest:
        with segment.path.open("rb") as file:
            for item in scan(file, signer, head.offset if segment.number == head.segment else 0):
                if isinstance(item, Block) and (believe or item.header.previous == head.link):
                    head = Head(head.chain, segment.number, item.end, item.header.sequence, item.link)
                elif not believe:
                    return head
    return head
