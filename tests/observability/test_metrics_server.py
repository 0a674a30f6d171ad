"""A metrics page over HTTP, asked byte by byte."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from observability import metrics_server
from observability.metrics_server import MetricsServer


@asynccontextmanager
async def page(text: str = "a 1\n") -> AsyncIterator[int]:
    server = MetricsServer(lambda: text)
    port = await server.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        await server.aclose()


async def said(port: int, *requests: bytes) -> bytes:
    """What a server answers to these requests of one connection, until it is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"".join(requests))
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_the_page_is_served_again_and_again_over_one_connection() -> None:
    get = b"GET /metrics?x=1 HTTP/1.1\r\nhost: h\r\n\r\n"
    async with page() as port:
        answer = await said(port, get, get)
        assert answer.count(b"HTTP/1.1 200 OK") == 2
        assert answer.endswith(b"content-length: 4\r\n\r\na 1\n")
        assert b"content-type: text/plain; version=0.0.4" in answer


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", b"200 OK"),
        (b"GET / HTTP/1.1\r\n\r\n", b"404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc", b"405 Method Not Allowed"),
    ],
)
async def test_other_requests(request_: bytes, status: bytes) -> None:
    async with page() as port:
        answer = await said(port, request_)
        assert answer.startswith(b"HTTP/1.1 " + status)
        assert answer.count(b"HTTP/1.1") == 1
        assert request_.startswith(b"HEAD") is answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("junk", [b"", b"\x00\x01", b"GET /metrics", b"x" * 100_000])
async def test_what_is_no_request_is_not_answered(junk: bytes) -> None:
    async with page() as port:
        assert await said(port, junk) == b""


async def test_whoever_says_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "_IDLE_SECONDS", 0.01)
    async with page() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


async def test_connections_end_with_the_server() -> None:
    async with page() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        await reader.readuntil(b"a 1\n")
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
