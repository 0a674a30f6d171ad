"""Name and read segment files: the blocks and events in them."""

import contextlib
import os
import re
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from observability.journal.block import EVENTS, HEAD_BYTES, MOST_BYTES, Block, Damage, scan
from observability.journal.entries import JournalEvent
from observability.journal.signer import Signer

#: Suffix of a sealed segment, and of one that is being written.
SUFFIX: Final = ".ndjson.zst"
_OPEN: Final = ".open"
_NAME: Final = re.compile(r"(?P<chain>[0-9a-f]{16})-(?P<number>[0-9]{8})(?P<open>\.open)?\.ndjson\.zst")
_JOURNAL: Final = b'"kind":"journal"'


class Segment(NamedTuple):
    """A file of blocks. `chain`: its chain's id, 8 bytes; `open`: it is not sealed."""

    chain: bytes
    number: int
    open: bool
    path: Path

    def sealed(self) -> "Segment":
        """Return the same segment under its sealed name."""
        return self._replace(open=False, path=segment_path(self.path.parent, self.chain, self.number, sealed=True))


class Contents(NamedTuple):
    """A segment's blocks, damage and events, in the order of the file."""

    items: list[Block | Damage]
    events: list[JournalEvent]
    size: int


def segment_path(folder: Path, chain: bytes, number: int, *, sealed: bool) -> Path:
    """Return the path of a segment."""
    return folder / f"{chain.hex()}-{number:08}{'' if sealed else _OPEN}{SUFFIX}"


def segments(folder: Path) -> list[Segment]:
    """List the segments of a chain's folder by number; segments of other chains there follow one another too."""
    found = []
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if match := _NAME.fullmatch(entry.name):
                chain, number = bytes.fromhex(match["chain"]), int(match["number"])
                found.append(Segment(chain, number, match["open"] is not None, Path(entry.path)))
    return sorted(found, key=lambda segment: (segment.chain, segment.number))


def read_segment(segment: Segment, signer: Signer) -> Contents:
    """Read every byte of a segment, which may have been sealed since it was listed. Raises OSError."""
    try:
        opened = segment.path.open("rb")
    except FileNotFoundError:
        opened = segment.sealed().path.open("rb")
    with opened as file:
        items = list(scan(file, signer))
        said = [item for item in items if isinstance(item, Block) and item.header.flags & EVENTS]
        lines = [line for block in said for line in block_lines(file, block) if _JOURNAL in line[:32]]
        events = []
        for line in lines:
            with contextlib.suppress(msgspec.DecodeError):  # This program does not write such lines.
                events.append(msgspec.json.decode(line, type=JournalEvent))
        return Contents(items, events, file.seek(0, 2))


def block_lines(file: BinaryIO, block: Block) -> list[bytes]:
    """Return the lines of a block; empty where this program cannot have written them."""
    import zstandard

    file.seek(block.offset + HEAD_BYTES)
    try:
        frame = file.read(block.header.frame_bytes)
        return zstandard.ZstdDecompressor().decompress(frame, max_output_size=MOST_BYTES).splitlines()
    except zstandard.ZstdError:
        return []
