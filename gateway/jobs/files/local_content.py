"""Content in a folder of this machine that all workers share."""

import contextlib
import os
import secrets
import shutil
import time
from pathlib import Path
from typing import Final

#: The folder of unfinished content.
_UNFINISHED: Final = ".unfinished"
#: Leftovers of a killed process are removed when they are this old, in seconds.
_STALE_SECONDS: Final = 86_400.0


class LocalContent:
    """The `FileContent` of files under `folder`, which is created."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._unfinished = folder / _UNFINISHED
        self._unfinished.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._sweep()

    def create(self, name: str) -> "LocalSink":
        return LocalSink(self._unfinished / secrets.token_hex(16), self._folder / name)

    def read(self, name: str, start: int, length: int) -> bytes:
        with (self._folder / name).open("rb", buffering=0) as file:
            return os.pread(file.fileno(), length, start)

    def delete(self, name: str) -> None:
        path = self._folder / name
        if name.endswith("/"):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def _sweep(self) -> None:
        old = time.time() - _STALE_SECONDS
        for entry in self._unfinished.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if entry.stat().st_mtime < old:
                    entry.unlink()


class LocalSink:
    """The `Sink` of a local file. Its content is synced to the disk before it gets its name."""

    def __init__(self, unfinished: Path, path: Path) -> None:
        self._unfinished = unfinished
        self._path = path
        self._descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._descriptor, left) :]

    def commit(self) -> None:
        """Rename the file to its name."""
        os.fsync(self._descriptor)
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._unfinished.replace(self._path)
        self._close()

    def abort(self) -> None:
        """Remove the file, unless it has its name."""
        if self._descriptor >= 0:
            self._close()
            self._unfinished.unlink(missing_ok=True)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)
