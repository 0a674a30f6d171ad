"""Which segments are removed."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from observability.journal.folder import Segment, chain_folders, segments


def due_for_removal(
    own: Sequence[Segment], folder: Path, *, keep_bytes: int, before: float
) -> tuple[list[Segment], str]:
    """The first of a chain's sealed segments that are to go, and why; none where there is nothing to remove.

    `own` has the oldest first; `before`: what was sealed earlier goes, in seconds since 1970. Beyond `keep_bytes`, of
    all chains the oldest segments go; each process removes its own.
    """
    aged = []
    for segment in own:
        if _sealed_at(segment) >= before:
            break
        aged.append(segment)
    if aged:
        return aged, "older than is kept"
    sizes: dict[Path, tuple[float, int]] = {}
    for chain in chain_folders(folder):
        for segment in segments(chain):
            with contextlib.suppress(FileNotFoundError):
                status = segment.path.stat()
                sizes[segment.path] = (float("inf") if segment.open else status.st_mtime, status.st_size)
    surplus, ours = sum(size for _, size in sizes.values()) - keep_bytes, {segment.path for segment in own}
    removed = 0
    for path, (_, size) in sorted(sizes.items(), key=lambda item: item[1][0]):
        if surplus <= 0 or path not in ours:
            break
        surplus -= size
        removed += 1
    return list(own[:removed]), "more bytes than are kept"


def _sealed_at(segment: Segment) -> float:
    try:
        return segment.path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")
