"""Settings of a journal."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """`key_file`: None for a plain chain. `refuse`: whether requests are refused while the disk does not accept writes.

    A segment is sealed when it is as long or as old as it may be; the oldest sealed ones are removed when all chains
    together have more than `keep_bytes`, or when they are older than `keep_seconds`.
    """

    folder: Path
    key_file: Path | None
    flush_seconds: float = 0.5
    segment_bytes: int = 64 << 20
    segment_seconds: float = 3600.0
    keep_bytes: int = 10 << 30
    keep_seconds: float = 90 * 86_400.0
    refuse: bool = False
