"""Content in any file system of fsspec, such as an S3-compatible store."""

import contextlib
from typing import Any, Final

#: Size of the parts of an upload, each of which is held in memory.
_PART_BYTES: Final = 8 << 20


class RemoteContent:
    """The `FileContent` of objects under an address such as `s3://bucket/prefix`."""

    def __init__(self, address: str, options: dict[str, Any] | None = None) -> None:
        """`options` are fsspec's, beside the environment's. Raises ImportError where the extra is missing."""
        import fsspec  # an extra, and slow to import: who needs it pays for it

        self._files: Any
        # Listings are not cached: other workers write there, too.
        self._files, self._root = fsspec.core.url_to_fs(address, use_listings_cache=False, **(options or {}))

    def create(self, name: str) -> "RemoteSink":
        return RemoteSink(self._files.open(self._path(name), "wb", block_size=_PART_BYTES))

    def read(self, name: str, start: int, length: int) -> bytes:
        if not length:
            return b""
        data: bytes = self._files.cat_file(self._path(name), start=start, end=start + length)
        return data

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.rm(self._path(name.rstrip("/")), recursive=name.endswith("/"))

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"


class RemoteSink:
    """The `Sink` of a remote object, which becomes visible once it is complete."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._over = False

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def commit(self) -> None:
        """Complete the upload."""
        self._over = True
        self._file.close()

    def abort(self) -> None:
        """Abort the upload."""
        if not self._over:
            self._over = True
            # A regular close would upload the rest.
            self._file.closed = True
            self._file.discard()
