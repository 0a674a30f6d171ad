"""How the journal lies on disk: a folder for each chain, which one process at a time holds, with segments in it."""

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
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


class Place(NamedTuple):
    """A chain's folder that this process holds by its lock. `made`: it was not there before."""

    folder: Path
    lock: int
    made: bool

    def held(self) -> bool:
        """Whether the lock is still that of the folder, which somebody may have removed or exchanged."""
        try:
            return os.path.samestat((self.folder / _LOCK).stat(), os.fstat(self.lock))
        except OSError:
            return False


def take_folder(folder: Path) -> int | None:
    """The lock of a chain's folder; None where another process has it. Raises OSError."""
    return take_lock(folder / _LOCK)


def claim(folder: Path, kind: str) -> Place:
    """The first folder of a kind, such as `worker-0`, that no other process holds.

    Raises:
        OSError: None can be made.
    """
    for number in range(_MOST_CHAINS):
        path = folder / f"{kind}-{number}"
        descriptor = _made(path)
        if descriptor is not None:
            return Place(path, descriptor, made=True)
        descriptor = take_folder(path)
        if descriptor is not None:
            return Place(path, descriptor, made=False)
    raise OSError(errno.EUSERS, "too many processes write to the journal", str(folder))


def _made(path: Path) -> int | None:
    """The lock of a folder that was not there. It is held from the first moment, so whoever finds a folder that nobody
    holds knows that a process has had it before.
    """
    if path.exists():
        return None
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    fresh.mkdir(mode=0o700, parents=True)
    descriptor = None
    try:
        descriptor = take_folder(fresh)
        fresh.rename(path)
        sync_folder(path.parent)
    except OSError as error:
        if descriptor is not None:
            os.close(descriptor)
        shutil.rmtree(fresh, ignore_errors=True)
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            return None
        raise
    return descriptor


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
