"""Manage chain folders: one for each process that writes, held by a file lock."""

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

_LOCK: Final = "lock"
_MOST_CHAINS: Final = 4096
_FOLDER: Final = re.compile(r"[a-z]+-[0-9]{1,4}")


class HeldFolder(NamedTuple):
    """A chain's folder that this process holds by its lock."""

    path: Path
    lock: int

    def held(self) -> bool:
        """Return whether the lock is still that of the folder, which somebody may have removed or replaced."""
        try:
            return os.path.samestat((self.path / _LOCK).stat(), os.fstat(self.lock))
        except OSError:
            return False


def chain_folders(folder: Path) -> list[Path]:
    """List the folders of all chains, by name."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        return sorted(Path(each.path) for each in entries if _FOLDER.fullmatch(each.name) and each.is_dir())
    return []


def take_folder(folder: Path) -> int | None:
    """Lock a chain's folder and return the descriptor; None where another process has it. Raises OSError."""
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
    """Return whether a process writes to a chain's folder."""
    with contextlib.suppress(OSError), (folder / _LOCK).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def claim(folder: Path, kind: str, begin: Callable[[Path], None]) -> HeldFolder:
    """Claim the first folder of a kind, such as `worker-0`, that no other process holds. `begin` fills a new one.

    Raises:
        OSError: No folder can be created.
    """
    for number in range(_MOST_CHAINS):
        path = folder / f"{kind}-{number}"
        lock = take_folder(path) if path.exists() else _made(path, begin)
        if lock is not None:
            return HeldFolder(path, lock)
    raise OSError(errno.EUSERS, "too many processes write to the journal", str(folder))


def _made(path: Path, begin: Callable[[Path], None]) -> int | None:
    """Create a folder and return its lock; None where another process was faster.

    The folder appears with its lock held and its head written, or not at all: one without a head was emptied.
    """
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    fresh.mkdir(mode=0o700, parents=True)
    lock = None
    try:
        lock = take_folder(fresh)
        begin(fresh)
        sync_folder(fresh)
        fresh.rename(path)
        sync_folder(path.parent)
    except OSError as error:
        if lock is not None:
            os.close(lock)
        shutil.rmtree(fresh, ignore_errors=True)
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            return None
        raise
    return lock


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
