"""Upstreams for the tests: real sockets that answer, byte by byte, what a test writes."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

EVENT = b'data: {"id":"c","model":"theirs","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n'
END = (
    b'data: {"id":"c","model":"theirs","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    b'data: {"id":"c","model":"theirs","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,'
    b'"prompt_tokens_details":{"cached_tokens":5}}}\n\n'
    b"data: [DONE]\n\n"
)
ANSWER = (
    b'{"id":"c","object":"chat.completion","model":"theirs","choices":[{"index":0,"message":{"role":"assistant",'
    b'"content":"hello"},"finish_reason":"length"}],"usage":{"prompt_tokens":7,"completion_tokens":3,'
    b'"prompt_tokens_details":{"cached_tokens":5}}}'
)


def plain(body: bytes, status: str = "200 OK", kind: str = "application/json", **headers: str) -> bytes:
    """A whole answer with its length."""
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{more}\r\n".encode() + body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST = b"0\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"


def streamed(*events: bytes, last: bytes = LAST) -> bytes:
    """A whole stream, in one chunk an event."""
    return STREAM + b"".join(map(chunk, events)) + last


@dataclass(frozen=True)
class Heard:
    """A request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Caller:
    """The upstream's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def hear(self) -> Heard:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        assert len(headers) == len(lines)
        if headers.get("transfer-encoding") == "chunked":
            return Heard(method, target, headers, await self._chunks())
        return Heard(method, target, headers, await self._reader.readexactly(int(headers.get("content-length", "0"))))

    async def _chunks(self) -> bytes:
        body = b""
        while size := int(await self._reader.readline(), 16):
            body += await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)
        return body

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def gone(self) -> None:
        """Return once the client has closed its end."""
        with contextlib.suppress(ConnectionError):
            while await self._reader.read(1 << 16):
                pass


Behaviour = Callable[[Caller, Heard], Awaitable[object]]


class Upstream:
    """Answers `GET` with 200, and everything else as `behaves` says: with bytes, or by itself, until it returns None.

    A connection is kept after bytes, and closed after a behaviour that returns false.
    """

    def __init__(self) -> None:
        self.behaves: bytes | Behaviour = plain(ANSWER)
        self.health: bytes = plain(b'{"data":[]}')
        self.pages: dict[str, bytes] = {}
        self.heard: list[Heard] = []
        self.looks: list[Heard] = []
        self.accepted = 0
        self.open = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.open += 1
        caller = Caller(reader, writer)
        try:
            while await self._answer(caller, await caller.hear()):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, caller: Caller, heard: Heard) -> object:
        if heard.method == "GET":
            self.looks.append(heard)
            await caller.say(self.pages.get(heard.target, self.health))
            return True
        self.heard.append(heard)
        if isinstance(self.behaves, bytes):
            await caller.say(self.behaves)
            return True
        return await self.behaves(caller, heard)


@contextlib.asynccontextmanager
async def upstream(context: ssl.SSLContext | None = None) -> AsyncIterator[Upstream]:
    """One that listens; what it still does ends with it."""
    fake = Upstream()
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def ended(task: "asyncio.Task[None]") -> None:
            tasks.discard(task)
            # Of a task that is cancelled before it has begun nothing runs but this.
            writer.close()

        task = asyncio.ensure_future(fake.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(ended)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context, limit=1 << 22)
    port = server.sockets[0].getsockname()[1]
    fake.url = f"{'https' if context is not None else 'http'}://127.0.0.1:{port}/v1"
    try:
        yield fake
    finally:
        # Whoever has been accepted is there before it closes: what comes to a closed server stays open for ever.
        for listening in server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        await asyncio.sleep(0.001)
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
