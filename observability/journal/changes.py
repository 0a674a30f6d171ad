"""Find the last admin change in the journal."""

from pathlib import Path
from typing import Final

import msgspec

from observability.journal.block import Block, scan
from observability.journal.folder import chain_folders
from observability.journal.retention import modified
from observability.journal.segment import block_lines, segments
from observability.journal.signer import Signer

_CHANGE: Final = b'"kind":"change"'


class _Id(msgspec.Struct):
    id: str


def last_change(folder: Path, kind: str) -> str:
    """Return the id of the newest change in the chains of a kind; empty where there is none. Raises OSError."""
    chains = [chain for chain in chain_folders(folder) if chain.name.startswith(f"{kind}-")]
    return max(map(_newest, chains), key=_order, default="")


def _order(change: str) -> tuple[int, int]:
    milliseconds, _, number = change.partition("-")
    return int(milliseconds or 0), int(number or 0)


def _newest(chain: Path) -> str:
    for segment in sorted(segments(chain), key=modified, reverse=True):
        with segment.path.open("rb") as file:
            for block in reversed([item for item in scan(file, Signer()) if isinstance(item, Block)]):
                lines = [line for line in block_lines(file, block) if _CHANGE in line[:32]]
                if lines:
                    return max((msgspec.json.decode(line, type=_Id).id for line in lines), key=_order)
    return ""
