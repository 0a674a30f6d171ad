"""Where a chain goes on after whatever ended the process before, and what its journal has to say of that."""

import os
import secrets
from pathlib import Path
from typing import NamedTuple

from observability.journal.block import FIRST_LINK, Block
from observability.journal.continuity import Continuity, Removed, last_removed
from observability.journal.entries import JournalEvent, event
from observability.journal.folder import sync_folder
from observability.journal.head import Head, read_head
from observability.journal.segment import Contents, Segment, read_segment, segments
from observability.journal.signer import Signer


class Resumption(NamedTuple):
    """The last block that counts and where the next one goes; what was removed; what is to be said in the next one."""

    position: Head
    removed: Removed
    events: list[JournalEvent]


def new_chain() -> Head:
    """A chain that has no block yet."""
    return Head(secrets.token_bytes(8), 1, 0, 0, FIRST_LINK)


def close_off(segment: Segment) -> None:
    """Nothing more is written to a segment. Raises OSError."""
    sealed = segment.sealed().path
    segment.path.rename(sealed)
    sealed.chmod(0o400)
    sync_folder(sealed.parent)


def resume(folder: Path, signer: Signer, known: Head | None, now: float) -> Resumption:
    """Look at a chain's folder, which this process holds, and cut off a torn tail: bytes that were never acknowledged.

    Whatever else is wrong there stays as it is, for whoever wants to see it; the chain goes on in a new segment.
    `known`: how far this process itself has come with the chain; None: it goes by the head file.

    Raises:
        OSError: The folder cannot be read or written.
    """
    head, events = known, list[JournalEvent]()
    if head is None:
        try:
            head, why = read_head(folder, signer), "is gone"
        except ValueError as error:
            why = str(error)
        if head is None:
            detail = f"the head file {why}: blocks may be missing before this one"
            events.append(event("missing", now, detail=detail))
    found = segments(folder)
    newest = max(found, key=lambda each: each.path.stat().st_mtime, default=None)
    chain = head.chain if head is not None else newest.chain if newest is not None else new_chain().chain
    own = [segment for segment in found if segment.chain == chain]
    recent = _recent(own, signer)
    chain_end = Continuity(recent[0][0].number - 1 if recent else 0, 0, None, head)
    for segment, contents in recent:
        for each in chain_end.follow(segment, contents):
            detail = each.problem if each.offset is None else f"at byte {each.offset}: {each.problem}"
            events.append(event("damaged", now, detail=detail, segment=segment.number))
    whole = not any(each.event == "damaged" for each in events)
    sequence, link = chain_end.sequence, chain_end.link or FIRST_LINK
    if head is not None and head.sequence > sequence:
        if missing := chain_end.cut():
            events.append(event("missing", now, detail=missing, segment=head.segment))
        whole, sequence, link = False, head.sequence, head.link
    removed = last_removed([each for _, contents in recent for each in contents.events])
    if own and own[-1].open and whole:
        last, size, torn = own[-1], recent[-1][1].size, chain_end.torn
        if torn is not None:
            _cut(last.path, torn.offset)
            detail, cut = "a torn tail was cut off", size - torn.offset
            events.append(event("repaired", now, detail=detail, segment=last.number, bytes=cut))
            size = torn.offset
        return Resumption(Head(chain, last.number, size, sequence, link), removed, events)
    if own and own[-1].open:
        close_off(own[-1])
    number = max(own[-1].number if own else 0, head.segment if head is not None and head.sequence else 0)
    return Resumption(Head(chain, number + 1, 0, sequence, link), removed, events)


def _recent(own: list[Segment], signer: Signer) -> list[tuple[Segment, Contents]]:
    """The newest segment, and those before it up to the first that has a block."""
    found: list[tuple[Segment, Contents]] = []
    for segment in reversed(own):
        found.insert(0, (segment, read_segment(segment.path, signer)))
        if any(isinstance(item, Block) for item in found[0][1].items):
            break
    return found


def _cut(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
