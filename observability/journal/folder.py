"""How the journal lies on disk: a folder for each chain, which one process at a time holds, with segments in it."""

import contextlib
import errno
import fcntl
import os
import re
from pathlib import Path
from typing import Final, NamedTuple

#: Behind the name of a segment, and before that while it is written.
SUFFIX: Final = ".ndjson.zst"
OPEN: Final = ".open"
_LOCK: Final = "lock"
_MOST_CHAINS: Final = 4096
_NAME: Final = re.compile(r"(?P<chain>[0-9a-f]{16})-(?P<number>[0-9]{8})(?P<open>\.open)?\.ndjson\.zst")
_FOLDER: Final = re.compile(r"[a-z]+-[0-9]{1,4}")


class Segment(NamedTuple):
    """A file of blocks. `chain`: its chain's id, 8 bytes; `open`: it is not sealed."""

    chain: bytes
    number: int
    open: bool
    path: Path

    @property
    def sealed_path(self) -> Path:
        """Its path once it is sealed."""
        return segment_path(self.path.parent, self.chain, self.number, sealed=True)


def segment_path(folder: Path, chain: bytes, number: int, *, sealed: bool) -> Path:
    """Where a segment lies."""
    return folder / f"{chain.hex()}-{number:08}{'' if sealed else OPEN}{SUFFIX}"


def segments(folder: Path) -> list[Segment]:
    """The segments of a chain's folder by number; those of other chains that lie there come after one another too."""
    found = []
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if match := _NAME.fullmatch(entry.name):
                chain, number = bytes.fromhex(match["chain"]), int(match["number"])
                found.append(Segment(chain, number, match["open"] is not None, Path(entry.path)))
    return sorted(found, key=lambda segment: (segment.chain, segment.number))


def chain_folders(folder: Path) -> list[Path]:
    """The folders of all chains, by name."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        return sorted(Path(each.path) for each in entries if _FOLDER.fullmatch(each.name) and each.is_dir())
    return []


def take_lock(path: Path) -> int | None:
    """A descriptor that holds a file until it is closed; None where another process has it.

    Raises:
        OSError: The file cannot be made.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def is_held(folder: Path) -> bool:
    """Whether a process writes to a chain's folder."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def holds(folder: Path, lock: int) -> bool:
    """Whether a lock is still that of the folder, which somebody may have removed or put another in its place."""
    try:
        return os.path.samestat((folder / _LOCK).stat(), os.fstat(lock))
    except OSError:
        return False


def take_folder(folder: Path) -> int | None:
    """The lock of a chain's folder; None where another process has it. Raises OSError."""
    return take_lock(folder / _LOCK)


def claim(folder: Path, kind: str) -> tuple[Path, int]:
    """The first folder of a kind, such as `worker-0`, that no other process holds, and its lock.

    Raises:
        OSError: None can be made.
    """
    for number in range(_MOST_CHAINS):
        path = folder / f"{kind}-{number}"
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = take_folder(path)
        if descriptor is not None:
            return path, descriptor
    raise OSError(errno.EUSERS, "too many processes write to the journal", str(folder))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
