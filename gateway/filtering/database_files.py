"""Keep the filters' compiled databases on disk: they take seconds to compile and a millisecond to load."""

import contextlib
import fcntl
import hashlib
import logging
import os
import platform
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

#: The most files; the oldest are deleted. A worker with all filters needs four.
MOST_FILES: Final = 64
_LONGEST_BYTES: Final = 256 << 20
_DIGEST: Final = hashlib.sha256().digest_size
_SUFFIX: Final = ".hyperscan"


class DatabaseFiles:
    """A `DatabaseCache` of files in one directory, which are readable for their owner alone.

    A file is the SHA-256 digest of a database, then the database. What is damaged, cut short or of another owner is no
    database; a disk that is full or read-only costs the time to compile alone.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        # A database is for one kind of processor.
        self._processor = hashlib.sha256(f"{platform.machine()}\n{_processor_features()}".encode()).hexdigest()[:16]

    def load(self, key: str) -> bytes | None:
        """Return the database saved under a key, if it is whole."""
        path = self._path(key)
        try:
            with open(path, "rb", opener=_opener) as file:
                status = os.fstat(file.fileno())
                if not _is_private(status) or status.st_size > _LONGEST_BYTES:
                    log.warning("%s is not a file of this user's alone: it is not used", path)
                    return None
                digest, data = file.read(_DIGEST), file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("%s cannot be read: %s", path, error.strerror or error)
            return None
        if hashlib.sha256(data).digest() != digest:
            log.warning("%s is damaged: the filter is compiled again", path)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return data

    def save(self, key: str, data: bytes) -> None:
        """Write a database, whole or not at all."""
        path = self._path(key)
        temporary = None
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._directory, prefix=".", suffix=_SUFFIX, delete=False) as file:
                temporary = file.name
                file.write(hashlib.sha256(data).digest())
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            self._delete_oldest()
        except OSError as error:
            log.warning("%s cannot be written, so each start compiles it: %s", path, error.strerror or error)
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)

    @contextlib.contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Wait for the process that compiles this database, if there is one, and keep others waiting."""
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):
                self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                file = stack.enter_context(open(self._directory / f".{key[:8]}.lock", "ab", opener=_opener))
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _path(self, key: str) -> Path:
        return self._directory / f"{key[:32]}-{self._processor}{_SUFFIX}"

    def _delete_oldest(self) -> None:
        files = sorted(self._directory.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in files[MOST_FILES:]:
            path.unlink(missing_ok=True)


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)


def _is_private(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _processor_features() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), "")
