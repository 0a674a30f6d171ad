"""Content in whatever fsspec has a file system for, such as an S3-compatible store."""

import contextlib
from typing import Any, Final

#: What is written goes out in parts of this size, and as much of it is held in memory.
_PART_BYTES: Final = 8 << 20


class RemoteContent:
    """Objects under an address such as `s3://bucket/prefix`; as FileContent has it."""

    def __init__(self, address: str, options: dict[str, Any] | None = None) -> None:
        """`options` are fsspec's, beside what the environment says. Raises ImportError where the extra is missing."""
        import fsspec  # an extra, and slow to import: who needs it pays for it

        self._files: Any
        # Listings are not remembered: other workers write there too.
        self._files, self._root = fsspec.core.url_to_fs(address, use_listings_cache=False, **(options or {}))

    def create(self, name: str) -> "RemoteSink":
        """Begin new content."""
        return RemoteSink(self._files.open(self._path(name), "wb", block_size=_PART_BYTES))

    def read(self, name: str, start: int, length: int) -> bytes:
        """Up to that many bytes from there on."""
        if not length:
            return b""
        data: bytes = self._files.cat_file(self._path(name), start=start, end=start + length)
        return data

    def delete(self, name: str) -> None:
        """Remove it."""
        with contextlib.suppress(FileNotFoundError):
            self._files.rm(self._path(name.rstrip("/")), recursive=name.endswith("/"))

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"


class RemoteSink:
    """An object on its way; as Sink has it. The other side shows it once it is complete."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._over = False

    def write(self, data: bytes) -> None:
        """Add some bytes."""
        self._file.write(data)

    def commit(self) -> None:
        """Complete it."""
        self._over = True
        self._file.close()

    def abort(self) -> None:
        """Give up what has gone out of it."""
        if not self._over:
            self._over = True
            # Closing would send the rest of what is given up.
            self._file.closed = True
            self._file.discard()
