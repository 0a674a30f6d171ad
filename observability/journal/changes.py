"""Which admin change the journal has last."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from observability.journal.block import MOST_BYTES, Block, frame_of, scan
from observability.journal.folder import chain_folders, segments
from observability.journal.signer import Signer

_KIND: Final = b'"kind":"change"'


class _Id(msgspec.Struct):
    id: str


def last_change(folder: Path, kind: str) -> str:
    """The id of the newest change in the chains of a kind; empty where there is none. Raises OSError."""
    found = [
        newest
        for chain in chain_folders(folder)
        if chain.name.startswith(f"{kind}-")
        if (newest := next(_changes(chain), None))
    ]
    return max(found, key=place, default="")


def place(change: str) -> tuple[int, int]:
    """An id as what ids are ordered by. Raises ValueError."""
    milliseconds, _, number = change.partition("-")
    return int(milliseconds), int(number)


def _changes(chain: Path) -> Iterator[str]:
    """The ids in a chain's folder, the newest first."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor()
    for segment in sorted(segments(chain), key=lambda each: each.path.stat().st_mtime, reverse=True):
        with segment.path.open("rb") as file:
            for block in reversed([item for item in scan(file, Signer()) if isinstance(item, Block)]):
                with contextlib.suppress(zstandard.ZstdError, msgspec.DecodeError, ValueError):
                    lines = decompressor.decompress(frame_of(file, block), max_output_size=MOST_BYTES).splitlines()
                    ids = [msgspec.json.decode(line, type=_Id).id for line in lines if _KIND in line[:32]]
                    if ids:
                        yield max(ids, key=place)
