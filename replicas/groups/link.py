"""A link: a stream of `Replica/Join` between two replicas of a host group, at either end of it."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc.aio

from protos.join import JOIN_METHOD, Join, JoinKind, decode_join, encode_join
from protos.protocol_error import ProtocolError

log = logging.getLogger(__name__)

#: Seconds between two signs of life, and the silence after which the peer counts as lost.
BEAT_SECONDS: Final = 0.5
SILENCE_SECONDS: Final = 2.0
#: Most bytes that a peer may give at a time. A simulated engine's are about 5 a token.
MOST_BYTES: Final = 1 << 28

#: How a stream ends, or a write to one that has ended.
_LOST: Final = (grpc.RpcError, grpc.aio.UsageError, grpc.aio.InternalError, asyncio.InvalidStateError)
_OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]


class Link:
    """One end. `beat` makes a sign of life, and `hear` gets each message."""

    def __init__(self, beat: Callable[[], Join], hear: Callable[[Join], None]) -> None:
        self._beat, self._hear = beat, hear
        self._bytes = 0  # of the parts in a row
        self._unsent: deque[Join] = deque()
        self._wake = asyncio.Event()
        self._closing = False

    def send(self, message: Join) -> None:
        """Queue a message."""
        self._unsent.append(message)
        self._wake.set()

    def close(self) -> None:
        """Let `run` end once all is sent; nothing more is heard."""
        self._closing = True
        self._wake.set()

    async def run(
        self,
        read: Callable[[], Awaitable[Any]],
        write: Callable[[bytes], Awaitable[Any]],
        done_writing: Callable[[], Awaitable[Any]] | None = None,
    ) -> None:
        """Carry messages both ways until it is closed, or the peer ends the stream, breaks its rules or is silent.

        Who opened the stream waits after `done_writing` until the peer has read all of it.
        """
        tasks = [asyncio.create_task(self._write(write)), asyncio.create_task(self._read(read))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if done_writing is not None and self._closing and tasks[0].done():
                await done_writing()
                await asyncio.wait(tasks[1:], timeout=BEAT_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            for error in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(error, Exception) and not isinstance(error, _LOST):
                    log.error("a link has failed", exc_info=error)

    async def _write(self, write: Callable[[bytes], Awaitable[Any]]) -> None:
        while True:
            while self._unsent:
                await write(encode_join(self._unsent.popleft()))
            if self._closing:
                return
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_SECONDS):
                    await self._wake.wait()
            if not self._unsent and not self._closing:
                self._unsent.append(self._beat())

    async def _read(self, read: Callable[[], Awaitable[Any]]) -> None:
        with contextlib.suppress(TimeoutError, ProtocolError):
            while True:
                async with asyncio.timeout(SILENCE_SECONDS):
                    data = await read()
                if data is grpc.aio.EOF:
                    return
                message = decode_join(data)
                if message.kind is JoinKind.PART:
                    self._bytes += len(message.part)
                    if self._bytes > MOST_BYTES:
                        return
                elif message.kind is not JoinKind.BEAT:
                    self._bytes = 0
                if not self._closing:
                    self._hear(message)


async def open_link(link: Link, address: str, credentials: grpc.ChannelCredentials | None) -> None:
    """Open a stream to the replica at an address and run the link over it to its end; a failure ends it, too."""
    if credentials is None or address.startswith("unix:"):
        channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
    else:
        channel = grpc.aio.secure_channel(address, credentials, options=_OPTIONS)
    async with channel:
        call: Any = channel.stream_stream(JOIN_METHOD)()
        try:
            await link.run(call.read, call.write, call.done_writing)
        finally:
            call.cancel()
