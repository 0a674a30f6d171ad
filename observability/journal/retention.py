"""Choose the segments that retention removes, by age and by size."""

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from observability.journal.folder import chain_folders
from observability.journal.segment import Segment, segments


def due_for_removal(
    own: Sequence[Segment], folder: Path, *, keep_bytes: int, before: float
) -> tuple[list[Segment], str]:
    """Return the oldest of a chain's sealed segments that are to be removed, and why; empty where there are none.

    `own` has the oldest first. Segments sealed before `before`, in seconds since 1970, are removed, and beyond
    `keep_bytes` the oldest segments of all chains; each process removes its own.
    """
    if aged := list(takewhile(lambda segment: modified(segment) < before, own)):
        return aged, "older than is kept"
    every = [segment for chain in chain_folders(folder) for segment in segments(chain)]
    surplus, due, ours = sum(map(_size, every)) - keep_bytes, list[Segment](), set(own)
    for segment in sorted((each for each in every if not each.open), key=modified):
        if surplus <= 0 or segment not in ours:
            break
        surplus -= _size(segment)
        due.append(segment)
    return due, "more bytes than are kept"


def modified(segment: Segment) -> float:
    """Return a segment's time of modification, in seconds since 1970; infinite where it no longer exists."""
    try:
        return segment.path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")


def _size(segment: Segment) -> int:
    try:
        return segment.path.stat().st_size
    except FileNotFoundError:
        return 0
