"""The benchmarks' upstream, as a client of the API sees it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import orjson
import pytest

from loadtest.load.mock_upstream import Answers, listen

TOKENS = 5


async def asked(port: int, request: bytes) -> bytes:
    """Everything that one connection gives until it has been silent for a while, or the answer has ended."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    if b"chunked" not in head:
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
    else:
        body = b""
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
    writer.close()
    await writer.wait_closed()
    return body


def post(body: bytes) -> bytes:
    return b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


@contextlib.asynccontextmanager
async def served(pace_ms: float) -> AsyncIterator[int]:
    answers = Answers(TOKENS, pace_ms)
    ticking = asyncio.create_task(answers.tick()) if pace_ms else None
    async with await listen(0, answers) as server:
        yield server.sockets[0].getsockname()[1]
    if ticking is not None:
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)


@pytest.mark.parametrize("pace_ms", [0.0, 1.0])
async def test_a_stream_has_its_tokens_its_usage_and_its_end(pace_ms: float) -> None:
    async with served(pace_ms) as port:
        body = await asked(port, post(b'{"stream":true}'))
        *events, done, rest = body.split(b"\n\n")
        chunks = [orjson.loads(event.removeprefix(b"data: ")) for event in events]
        assert (done, rest) == (b"data: [DONE]", b"")
        assert sum("content" in c["choices"][0]["delta"] for c in chunks if c["choices"]) == TOKENS
        assert chunks[-1]["usage"]["completion_tokens"] == TOKENS


async def test_a_whole_answer_and_the_models() -> None:
    async with served(0.0) as port:
        whole = orjson.loads(await asked(port, post(b"{}")))
        assert whole["usage"]["completion_tokens"] == TOKENS
        assert orjson.loads(await asked(port, b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n"))["data"] == []


async def test_a_request_may_come_in_pieces() -> None:
    async with served(0.0) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for byte in post(b'{"a":1}'):
            writer.write(bytes([byte]))
            await writer.drain()
        assert await reader.read(12) == b"HTTP/1.1 200"
        writer.close()
