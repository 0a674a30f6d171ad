"""The seam for file content, stored by name."""

import asyncio
import errno
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, Protocol, TypeVar

from protos.errors import ContentUnavailable, InternalError, PenstockError, StorageFull

log = logging.getLogger(__name__)

#: Bytes read and written at once.
PIECE_BYTES: Final = 1 << 18
_THREADS: Final = 4
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

P = ParamSpec("P")
T = TypeVar("T")


class Sink(Protocol):
    """Content being written. Nobody sees it before `commit`; `abort` removes it."""

    def write(self, data: bytes) -> None:
        """Add some bytes."""
        ...

    def commit(self) -> None:
        """Publish the whole content under its name, in place of what was there."""
        ...

    def abort(self) -> None:
        """Remove what was written. Idempotent, and without effect after `commit`."""
        ...


class FileContent(Protocol):
    """A store of content. A name is a path of letters, digits, `-`, `_` and `.`, with slashes between its parts.

    Every method blocks, may be called from any thread, and raises OSError; FileNotFoundError for unknown names.
    """

    def create(self, name: str) -> Sink:
        """Begin new content."""
        ...

    def read(self, name: str, start: int, length: int) -> bytes:
        """Read up to `length` bytes from `start` on; fewer only at the end."""
        ...

    def delete(self, name: str) -> None:
        """Delete a name, or everything under one that ends in a slash. Unknown names are ignored."""
        ...


class Contents:
    """Content for the event loop: calls run in a few threads of their own; close it with `aclose`.

    Failures become StorageFull or ContentUnavailable; only the log gets the location.
    """

    def __init__(self, opened: Callable[[], FileContent]) -> None:
        """`opened` is called, in a thread, before the first use."""
        self._opened = opened
        self._content: FileContent | None = None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="files")

    async def run(self, work: Callable[[FileContent], T]) -> T:
        """Run blocking work. Raises StorageFull, ContentUnavailable, or an error of the tree from `work`."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._guarded, work)

    async def read(self, name: str, start: int, length: int) -> bytes:
        """Read some of the content."""
        return await self.run(lambda content: content.read(name, start, length))

    async def pieces(self, name: str, size: int) -> AsyncIterator[bytes]:
        """Yield the content, which is `size` bytes long, piece by piece."""
        start = 0
        while start < size:
            piece = await self.read(name, start, min(PIECE_BYTES, size - start))
            if not piece:
                raise _away()
            start += len(piece)
            yield piece

    async def put(self, name: str, data: bytes) -> None:
        """Write small content, whole."""

        def write(content: FileContent) -> None:
            sink = content.create(name)
            try:
                sink.write(data)
                sink.commit()
            finally:
                sink.abort()

        await self.run(write)

    async def delete(self, name: str) -> None:
        """Delete a name, or everything under one that ends in a slash."""
        await self.run(lambda content: content.delete(name))

    async def aclose(self) -> None:
        """Wait for running calls."""
        await asyncio.to_thread(self._threads.shutdown)

    def _guarded(self, work: Callable[[FileContent], T]) -> T:
        try:
            if self._content is None:
                self._content = self._opened()
            return work(self._content)
        except PenstockError:
            raise
        except OSError as error:
            raise _translated(error) from error
        except Exception as error:
            log.exception("the content of files cannot be used")
            raise InternalError("The gateway failed on this request.") from error


class Upload:
    """Content that a client uploads, gathered into pieces large enough for a thread.

    Its owner calls `commit` or `abort` in the end; neither leaves anything half-written.
    """

    def __init__(self, contents: Contents, name: str) -> None:
        self._contents = contents
        self._name = name
        self._sink: Sink | None = None
        self._gathered: list[bytes] = []
        self._waiting = 0
        self.size = 0

    async def write(self, data: bytes) -> None:
        """Add some bytes. Raises StorageFull or ContentUnavailable."""
        self._gathered.append(data)
        self._waiting += len(data)
        self.size += len(data)
        if self._waiting >= PIECE_BYTES:
            await self._flush()

    async def commit(self) -> None:
        """Publish it as the content of its name. Raises StorageFull or ContentUnavailable."""
        await self._flush()
        sink = self._sink
        assert sink is not None
        await self._contents.run(lambda _: sink.commit())

    async def abort(self) -> None:
        """Remove it, in any state; raises nothing."""
        sink, self._sink = self._sink, None
        self._gathered.clear()
        if sink is not None:
            try:
                await self._contents.run(lambda _: sink.abort())
            except PenstockError as error:
                log.warning("an upload that was given up may not be gone: %s", error.__cause__)

    async def _flush(self) -> None:
        data = b"".join(self._gathered)
        self._gathered.clear()
        self._waiting = 0

        def write(content: FileContent) -> None:
            if self._sink is None:
                self._sink = content.create(self._name)
            self._sink.write(data)

        await self._contents.run(write)


def _translated(error: OSError) -> PenstockError:
    if error.errno in _FULL:
        log.error("there is no room for files: %s", error)
        return StorageFull("The gateway has no room left for files.")
    if not isinstance(error, FileNotFoundError):
        log.error("files cannot be read or written: %s", error)
    return _away()


def _away() -> ContentUnavailable:
    return ContentUnavailable("The content of files cannot be reached. Try again shortly.", retry_after=1.0)
