"""Where a chain goes on after whatever ended the process before, and what its journal has to say of that."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from observability.journal.block import FIRST_LINK
from observability.journal.entries import JournalEvent, event
from observability.journal.folder import Segment, segments, sync_folder
from observability.journal.head import Acknowledged, Head, read_head
from observability.journal.reading import Contents, read_segment
from observability.journal.signer import Signer


class Removed(NamedTuple):
    """The youngest segment that was removed by age or size, its last block, and that one's link."""

    segment: int = 0
    sequence: int = 0
    link: bytes = FIRST_LINK


class Resumption(NamedTuple):
    """The last block that counts and where the next one goes, as a head says it; and likewise the block before."""

    head: Head
    before: Head
    removed: Removed
    events: list[JournalEvent]


def close_off(segment: Segment) -> None:
    """Nothing more is written to a segment. Raises OSError."""
    segment.path.rename(segment.sealed_path)
    sync_folder(segment.path.parent)
    segment.sealed_path.chmod(0o400)


def resume(folder: Path, signer: Signer, now: float) -> Resumption:
    """Look at a chain's folder, which this process holds, and cut off a torn tail: bytes that were never acknowledged.

    Whatever else is wrong there stays as it is, for whoever wants to see it; the chain goes on in a new segment.

    Raises:
        OSError: The folder cannot be read or written.
    """
    acknowledged, events = _head(folder, signer, now)
    head = acknowledged.head if acknowledged is not None else None
    found = segments(folder)
    if head is None and not found:
        first = Head(secrets.token_bytes(8), 1, 0, 0, FIRST_LINK)
        return Resumption(first, first._replace(sequence=-1), Removed(), events)
    chain = head.chain if head is not None else max(found, key=lambda each: each.path.stat().st_mtime).chain
    own = [segment for segment in found if segment.chain == chain]
    contents = _newest(own, signer)
    blocks = [block for each in contents for block in each.blocks]
    last = max(blocks, key=lambda block: block.header.sequence, default=None)
    sequence, link = (0, FIRST_LINK) if last is None else (last.header.sequence, last.link)
    if head is None and not events:
        events.append(event("missing", now, detail="the head file is gone: blocks may be missing before this one"))
    elif acknowledged is not None and not acknowledged.whole:
        events += _half(acknowledged, sequence, now)
    number, offset = head.segment if head is not None else 1, 0
    missing = head is not None and head.sequence > sequence
    if own:
        number, offset = _place(own[-1], contents[0], head, missing, events, now)
    if head is not None and missing:
        detail = f"blocks {sequence + 1} to {head.sequence} were acknowledged and are not there"
        events.append(event("missing", now, detail=detail, segment=head.segment))
        number, offset = max(number, head.segment + 1), 0
        sequence, link, last = head.sequence, head.link, None
    before = Head(chain, number, 0, sequence - 1, last.header.previous if last is not None else FIRST_LINK)
    return Resumption(Head(chain, number, offset, sequence, link), before, _removed(contents), events)


def resume_known(folder: Path, known: Head) -> bool:
    """Whether a chain can go on exactly where this process had come to; what it wrote after that is cut off.

    Raises:
        OSError: It cannot be cut off.
    """
    last = next((each for each in segments(folder) if (each.chain, each.number) == (known.chain, known.segment)), None)
    if known.offset == 0 and last is None:
        return True
    if last is None or not last.open or last.path.stat().st_size < known.offset:
        return False
    _cut(last.path, known.offset)
    return True


def not_found(known: Head, found: Head | None, now: float) -> list[JournalEvent]:
    """What is to be said where a process does not find its chain again, or not as far as it had come itself."""
    at_least = found.sequence if found is not None and found.chain == known.chain else 0
    if known.sequence <= at_least:
        return []
    what = f"chain {known.chain.hex()} was removed or cut while it was written"
    return [event("missing", now, detail=f"{what}; its last block was {known.sequence}")]


def _head(folder: Path, signer: Signer, now: float) -> tuple[Acknowledged | None, list[JournalEvent]]:
    try:
        return read_head(folder, signer), []
    except ValueError:
        detail = "the head file is not one of this key's: blocks may be missing before this one"
        return None, [event("missing", now, detail=detail)]


def _half(acknowledged: Acknowledged, sequence: int, now: float) -> list[JournalEvent]:
    """What to say of a head with one place that cannot be used, in a chain that ends with a block.

    A block is durable before its place is written, so after a crash it is there.
    """
    if sequence > acknowledged.head.sequence:
        return [event("repaired", now, detail="the head file was torn; the block that it was to name is there")]
    if sequence == acknowledged.head.sequence:
        return [event("missing", now, detail="a part of the head file is gone: the last block may have been cut off")]
    return []


def _newest(own: Sequence[Segment], signer: Signer) -> list[Contents]:
    """The newest segment's contents, and those before it up to the first that has a block."""
    found: list[Contents] = []
    for segment in reversed(own):
        found.append(read_segment(segment.path, signer))
        if found[-1].blocks:
            break
    return found


def _place(
    last: Segment, contents: Contents, head: Head | None, missing: bool, events: list[JournalEvent], now: float
) -> tuple[int, int]:
    """The number of the segment that the next block goes to, and where in it."""
    acknowledged = head.offset if head is not None and head.segment == last.number else 0
    damages = contents.damages
    if last.open and not missing and not contents.sealed:
        if not damages:
            return last.number, contents.size
        torn = damages[0]
        if torn.end == contents.size and torn.offset >= acknowledged:
            _cut(last.path, torn.offset)
            cut = contents.size - torn.offset
            events.append(event("repaired", now, detail="a torn tail was cut off", segment=last.number, bytes=cut))
            return last.number, torn.offset
    if last.open:
        close_off(last)
    if damages:
        detail = f"damaged at byte {damages[0].offset}: {damages[0].problem}"
        events.append(event("damaged", now, detail=detail, segment=last.number))
    return last.number + 1, 0


def _cut(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _removed(contents: Sequence[Contents]) -> Removed:
    """What the newest events say of segments that were removed; every segment's first block says it."""
    known = [each for part in contents for each in part.events if each.removed_segment]
    if not known:
        return Removed()
    newest = max(known, key=lambda each: each.removed_segment)
    return Removed(newest.removed_segment, newest.removed_sequence, bytes.fromhex(newest.removed_link))
