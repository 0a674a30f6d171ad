"""One segment, read whole: its blocks, what in it is none, and what it says of the journal itself."""

from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

from observability.journal.block import EVENTS, LAST, MOST_BYTES, Block, Damage, frame_of, scan
from observability.journal.entries import JournalEvent
from observability.journal.signer import Signer

_KIND: Final = b'"kind":"journal"'


class Contents(NamedTuple):
    """What is in a segment, in the order of the file."""

    items: list[Block | Damage]
    events: list[JournalEvent]
    size: int

    @property
    def blocks(self) -> list[Block]:
        """Those that are whole."""
        return [item for item in self.items if isinstance(item, Block)]

    @property
    def damages(self) -> list[Damage]:
        """What is none."""
        return [item for item in self.items if isinstance(item, Damage)]

    @property
    def sealed(self) -> bool:
        """Whether it ends as a segment should."""
        last = self.items[-1] if self.items else None
        return isinstance(last, Block) and bool(last.header.flags & LAST)


def read_segment(path: Path, signer: Signer) -> Contents:
    """What is in a segment. Raises OSError."""
    with path.open("rb") as file:
        items = list(scan(file, signer))
        events = [
            event
            for item in items
            if isinstance(item, Block) and item.header.flags & EVENTS
            for event in events_of(file, item)
        ]
        return Contents(items, events, file.seek(0, 2))


def events_of(file: BinaryIO, block: Block) -> list[JournalEvent]:
    """What a block says of the journal; nothing where its lines are not what this program writes."""
    import zstandard

    try:
        lines = zstandard.ZstdDecompressor().decompress(frame_of(file, block), max_output_size=MOST_BYTES)
        return [_decoded(line) for line in lines.splitlines() if _KIND in line[:32]]
    except (zstandard.ZstdError, msgspec.DecodeError):
        return []


def _decoded(line: bytes) -> Any:
    return msgspec.json.decode(line, type=JournalEvent)
