"""Manage the folder through which a gateway's workers share their numbers: its files and locks.

A worker writes its own file, `<worker>.metrics`, which is replaced whole, and holds a lock on `<worker>.lock` for as
long as its process lives: the kernel releases it however the process ends, and reused process ids do not matter.
`ended` has the sums of workers whose files are gone, `places` the tenants that have series of their own. Nothing here
must outlive a crash of the machine, so nothing waits for the disk. Every function may block.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SUFFIX: Final = ".metrics"
LOCK_SUFFIX: Final = ".lock"
ENDED: Final = "ended"
PLACES: Final = "places"
#: The lock for changes of `ended` and `places`.
SHARED_LOCK: Final = "shared.lock"
_PART: Final = ".part"
_MODE: Final = 0o600


def clear(folder: Path) -> None:
    """Empty the folder. Call it before there is any worker; raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name in (ENDED, PLACES) or path.suffix in (SUFFIX, LOCK_SUFFIX, _PART):
            path.unlink(missing_ok=True)


def replace(path: Path, data: bytes) -> None:
    """Write a file atomically for its readers. Raises OSError, and leaves no partial file behind."""
    part = path.with_name(path.name + _PART)
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _MODE)
        with open(descriptor, "wb", buffering=0) as file:
            written = 0
            while written < len(data):
                written += file.write(data[written:])
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def worker_files(folder: Path) -> list[Path]:
    """List the files of all workers, by name; empty where there is no folder."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return sorted(path for path in folder.iterdir() if path.suffix == SUFFIX)
    return []


def lives(path: Path) -> bool:
    """Return whether the worker of a file holds its lock."""
    try:
        descriptor = os.open(path.with_suffix(LOCK_SUFFIX), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Shared, so that several readers at once do not take each other for the worker.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


class OwnLock:
    """A worker's own lock file, locked again where somebody has removed the file."""

    def __init__(self, path: Path) -> None:
        """`path` is the lock file's."""
        self._path = path
        self._descriptor: int | None = None

    def hold(self) -> None:
        """Make sure that the folder exists and the lock is held. Raises OSError."""
        while not self._holds():
            self.release()
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
            # Other processes hold it for microseconds, to test whether it is free. One of them may have removed the
            # file.
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def _holds(self) -> bool:
        if self._descriptor is None:
            return False
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self._descriptor), self._path.stat())
        return False

    def release(self) -> None:
        """Release the lock. Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def remove_stray_locks(folder: Path) -> None:
    """Remove the locks of workers that ended before they had written anything. Raises OSError."""
    for path in folder.glob(f"*{LOCK_SUFFIX}"):
        if path.name == SHARED_LOCK or path.with_suffix(SUFFIX).exists():
            continue
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def shared_lock(folder: Path) -> Iterator[bool]:
    """Yield whether this process may change the shared files: not while another one does. Raises OSError."""
    descriptor = os.open(folder / SHARED_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
