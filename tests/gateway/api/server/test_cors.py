"""Web pages of other origins: what their browsers are told, of every kind of answer."""

import asyncio
from typing import Any

import pytest

from tests.asgi import CHAT, Answer, Client, gateway_of
from tests.harness import MODEL, engine_of

PAGE = "https://app.example.com"
LISTED: dict[str, Any] = {"cors": {"origins": [PAGE, "http://localhost:3000"]}}


def asking(client: Client, origin: str = PAGE, **headers: str) -> list[tuple[bytes, bytes]]:
    """A request's headers as a browser sends them for a page."""
    fields = {"authorization": f"Bearer {client.key}", "origin": origin, **headers}
    return [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]


async def ask_first(client: Client, path: str, method: str, origin: str = PAGE, wanted: str = "") -> Answer:
    """A preflight: no key comes with it."""
    headers = [(b"origin", origin.encode()), (b"access-control-request-method", method.encode())]
    if wanted:
        headers.append((b"access-control-request-headers", wanted.encode()))
    return await client.request("OPTIONS", path, b"", headers)


async def test_a_browser_may_call_from_a_listed_page(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(), **LISTED) as client:
        wanted = "authorization, content-type, x-stainless-os,x-stainless-retry-count"
        for path in (CHAT, "/v1/models/x", "/v1/nothing/there"):
            told = await ask_first(client, path, "POST", wanted=wanted)
            assert (told.status, told.body) == (200, b"")
            assert told.headers["access-control-allow-origin"] == PAGE
            assert told.headers["access-control-allow-headers"] == wanted
            assert told.headers["access-control-max-age"] == "600"
            assert told.headers["vary"] == "origin"
        assert (await ask_first(client, CHAT, "POST")).headers["access-control-allow-methods"] == "POST, OPTIONS"


async def test_every_answer_may_be_read_by_a_listed_page(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(), **LISTED) as client:
        body: dict[str, Any] = {"model": MODEL, "max_tokens": 3, "messages": [{"role": "user", "content": "Hi"}]}
        answers = [
            await client.request("POST", CHAT, body, asking(client)),
            await client.request("POST", CHAT, {**body, "stream": True}, asking(client)),
            await client.request("POST", CHAT, {**body, "n": 0}, asking(client)),
            await client.request("POST", CHAT, body, asking(client, authorization="Bearer x")),
            await client.request("PUT", CHAT, body, asking(client)),
            await client.request("GET", "/nope", b"", asking(client)),
            await client.request("GET", "/healthz", b"", asking(client)),
        ]
        assert [answer.status for answer in answers] == [200, 200, 400, 401, 405, 404, 200]
        for answer in answers:
            assert answer.headers["access-control-allow-origin"] == PAGE
            assert answer.headers["vary"] == "origin"
            exposed = answer.headers["access-control-expose-headers"].split(", ")
            assert {"x-request-id", "x-ratelimit-remaining-tokens", "retry-after"} <= set(exposed)


@pytest.mark.parametrize("origin", ["https://evil.example.com", "https://app.example.com.evil", "null", "", PAGE + "/"])
async def test_other_pages_may_read_nothing(store_url: str, origin: str) -> None:
    async with gateway_of(store_url, engine_of(), **LISTED) as client:
        told = await ask_first(client, CHAT, "POST", origin)
        answer = await client.request("GET", "/v1/models", b"", asking(client, origin))
        for one in (told, answer):
            assert "access-control-allow-origin" not in one.headers
            assert one.headers["vary"] == "origin"
        assert answer.status == 200


async def test_all_pages_may_be_let_in(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(), cors={"origins": ["*"], "max_age_seconds": 5}) as client:
        told = await ask_first(client, CHAT, "POST", "https://any.where", "x\r\ny: z")
        assert told.headers["access-control-allow-origin"] == "*"
        assert told.headers["access-control-max-age"] == "5"
        assert "access-control-allow-headers" not in told.headers
        assert "vary" not in told.headers


async def test_without_the_section_there_is_none_of_it(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        answers = await asyncio.gather(
            ask_first(client, CHAT, "POST"), client.request("GET", "/v1/models", b"", asking(client))
        )
        assert [answer.status for answer in answers] == [200, 200]
        assert not [name for answer in answers for name in answer.headers if name.startswith("access-control")]
