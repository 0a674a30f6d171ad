"""Posts to a webhook that is a real server here."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from gateway.tenancy.limits import post_json as post_module
from gateway.tenancy.limits.post_json import WebhookFailed, post_json
from tests.loops import until

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def webhook(answer: Answer, heads: list[bytes] | None = None) -> AsyncIterator[str]:
    """Serve the answer to each request, of which the heads are noted."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            if heads is not None:
                heads.append(head)
            await answer(writer)
        writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def saying(text: bytes, then: asyncio.Event | None = None) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()
        if then is not None:
            await then.wait()

    return answer


def endless(begin: bytes, part: bytes, ended: asyncio.Event) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        try:
            while True:
                writer.write(part)
                await writer.drain()
        finally:
            ended.set()

    return answer


async def test_a_body_that_never_ends_is_left_though_something_always_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post_module, "WEBHOOK_SECONDS", 0.3)
    ended = asyncio.Event()
    async with webhook(endless(b"HTTP/1.1 200 OK\r\n\r\n", b"and on ", ended)) as url:
        await post_json(f"{url}/hook", b"{}")
        # Nothing of it is left open.
        await until(ended.is_set)


async def test_a_head_that_never_ends_is_given_up() -> None:
    ended = asyncio.Event()
    async with webhook(endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n", ended)) as url:
        with pytest.raises(WebhookFailed):
            await post_json(f"{url}/hook", b"{}")
        await until(ended.is_set)


async def test_silence_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post_module, "WEBHOOK_SECONDS", 0.3)
    hangs = asyncio.Event()
    async with webhook(saying(b"HTTP/1.1 100 Continue\r\n\r\n", hangs)) as url:
        with pytest.raises(WebhookFailed, match=r"no answer within 0\.3 s"):
            await post_json(f"{url}/hook", b"{}")
        hangs.set()


async def test_a_status_counts_whatever_becomes_of_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post_module, "WEBHOOK_SECONDS", 0.3)
    hangs = asyncio.Event()
    part = b"HTTP/1.1 %b\r\ncontent-length: 100\r\n\r\nhalf"
    for then in (hangs, None):
        async with webhook(saying(part % b"200 OK", then)) as url:
            await post_json(f"{url}/hook", b"{}")
        async with webhook(saying(part % b"500 Oh", then)) as url:
            with pytest.raises(WebhookFailed, match="it answers with status 500"):
                await post_json(f"{url}/hook", b"{}")
    hangs.set()


async def test_the_whole_address_is_asked_and_no_redirect_followed() -> None:
    heads: list[bytes] = []
    async with webhook(saying(b"HTTP/1.1 302 Found\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n"), heads) as url:
        with pytest.raises(WebhookFailed, match="status 302"):
            await post_json(f"{url}/a/hook?token=1&x=%20#part", b"{}")
    (head,) = heads
    assert head.startswith(b"POST /a/hook?token=1&x=%20 HTTP/1.1\r\n")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://h/\x7f", "http://u:p@h/", "http://[::1/"])
async def test_an_address_that_cannot_be_asked(url: str) -> None:
    with pytest.raises(WebhookFailed):
        await post_json(url, b"{}")
