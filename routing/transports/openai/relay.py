"""A byte buffer with backpressure between the wire and the one reader of a relayed answer."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from protos.errors import PenstockError
from protos.token_counts import TokenCounts
from routing.transports.openai.usage_forms import counts_of

#: With this many bytes unread, reading from the upstream pauses.
MOST_UNREAD: Final = 128 * 1024


class Progress(Protocol):
    """How far an answer has come: about how many tokens, and what its upstream has told of usage, in its own form."""

    @property
    def tokens(self) -> int: ...

    @property
    def usage(self) -> Mapping[str, Any] | None: ...


class ByteRelay:
    """The `Relay` of an answer. `pause` and `resume` pause and resume the wire; `progress` is asked when it matters."""

    __slots__ = (
        "_counts",
        "_counts_of",
        "_error",
        "_held",
        "_loop",
        "_over",
        "_parts",
        "_pause",
        "_progress",
        "_resume",
        "_size",
        "_waiter",
        "length",
        "streamed",
    )

    def __init__(
        self, progress: Progress, *, streamed: bool, pause: Callable[[], None], resume: Callable[[], None]
    ) -> None:
        self.streamed = streamed
        self.length: int | None = None
        self._progress = progress
        self._counts: TokenCounts | None = None
        self._counts_of: Mapping[str, Any] | None = None
        self._pause = pause
        self._resume = resume
        self._held = False
        self._parts: list[bytes] = []
        self._size = 0
        self._over = False
        self._error: PenstockError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def seen(self) -> int:
        return self._progress.tokens

    @property
    def counts(self) -> TokenCounts | None:
        usage = self._progress.usage
        if usage is not self._counts_of:
            self._counts, self._counts_of = counts_of(usage), usage
        return self._counts

    async def read(self) -> bytes:
        while True:
            parts = self._parts
            if parts:
                data = parts[0] if len(parts) == 1 else b"".join(parts)
                parts.clear()
                self._size = 0
                if self._held:
                    self._held = False
                    self._resume()
                return data
            if self._error is not None:
                raise self._error
            if self._over:
                return b""
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def put(self, data: bytes) -> None:
        """Add a part (not empty) and wake the reader."""
        self._parts.append(data)
        self._size += len(data)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        elif self._size > MOST_UNREAD and not self._held:
            self._held = True
            self._pause()

    def end(self) -> None:
        """End it: all has come, and the wire no longer waits for the reader."""
        self._over = True
        if self._held:
            self._held = False
            self._resume()
        self._wake()

    def fail(self, error: PenstockError) -> None:
        """Fail it; what came before can still be read. The first ending counts."""
        if not self._over:
            self._error, self._over = error, True
            self._wake()

    def drop(self) -> None:
        """Drop the unread bytes: the reader is gone."""
        self._parts.clear()
        self._over = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
