"""What people trip over: ids of requests, other names of models, methods, paths that are nearly right, slow streams."""

import asyncio
from typing import Any

import pytest

from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.request_watchdog import RequestWatchdog
from observability.tracing.sampling import HeadSampler
from tests.asgi import CHAT, gateway_of
from tests.harness import MODEL, bounded, engine_of, until

ALIASES: dict[str, Any] = {"model_fields": {"aliases": ["gpt-4o", "gpt-4o-mini"]}}


@pytest.mark.parametrize(
    "own", ["a", "req_123", "0f8fad5b-d9cb-469f-a165-70867728950e", "Root=1-67:2/x@y+z~", "x" * 128]
)
def test_a_clients_own_id_is_used(store_url: str, own: str) -> None:
    async def main() -> None:
        async with gateway_of(store_url, engine_of()) as client:
            key = (b"authorization", b"Bearer " + client.key.encode())
            body = {"model": MODEL, "max_tokens": 2, "messages": [{"role": "user", "content": "Hi"}]}
            for sent in (body, {**body, "stream": True}, {**body, "n": 0}):
                answer = await client.request("POST", CHAT, sent, [key, (b"x-request-id", own.encode())])
                assert answer.headers["x-request-id"] == own

    bounded(main)


@pytest.mark.parametrize("own", [b"", b"x" * 129, b"a b", b"a\r\nb: c", b"\xff", b"a\x00", b'"a"', b"a,b"])
def test_a_strange_one_is_not(store_url: str, own: bytes) -> None:
    async def main() -> None:
        async with gateway_of(store_url, engine_of()) as client:
            answer = await client.request("GET", "/healthz", b"", [(b"x-request-id", own)])
            assert answer.headers["x-request-id"].startswith("req_")

    bounded(main)


def test_two_requests_of_one_id_are_told_apart_inside(store_url: str) -> None:
    async def main() -> None:
        async with gateway_of(store_url, engine_of()) as client:
            headers = [(b"authorization", b"Bearer " + client.key.encode()), (b"x-request-id", b"same")]
            body = {"model": MODEL, "max_tokens": 2, "messages": [{"role": "user", "content": "Hi"}]}
            answers = await asyncio.gather(*(client.request("POST", CHAT, body, headers) for _ in range(3)))
            assert {answer.headers["x-request-id"] for answer in answers} == {"same"}
            assert len({answer.json["id"] for answer in answers}) == 3

    bounded(main)


def test_an_alias_is_another_name(store_url: str) -> None:
    async def main() -> None:
        async with gateway_of(store_url, engine_of(), **ALIASES) as client:
            for name in (MODEL, "gpt-4o", "gpt-4o-mini"):
                answer = await client.chat(model=name)
                assert (answer.status, answer.json["model"]) == (200, MODEL)
                chunks = (await client.chat(model=name, stream=True)).events[:-1]
                assert {chunk["model"] for chunk in chunks} == {MODEL}
                found = await client.request("GET", f"/v1/models/{name}")
                assert (found.status, found.json["id"]) == (200, name)
            listed = (await client.request("GET", "/v1/models")).json["data"]
            assert [model["id"] for model in listed] == [MODEL, "gpt-4o", "gpt-4o-mini"]
            assert (await client.chat(model="gpt-4")).error["code"] == "model_not_found"

    bounded(main)


def test_scopes_and_limits_go_by_the_models_own_name(store_url: str) -> None:
    async def main() -> None:
        tenant = {"name": "acme", "models": [MODEL], "model_limits": {MODEL: {"max_output_tokens": 4}}}
        async with gateway_of(store_url, engine_of(), models=[MODEL], tenant=tenant, **ALIASES) as client:
            assert (await client.chat(model="gpt-4o", max_tokens=5)).error["code"] == "token_limit_exceeded"
            assert (await client.chat(model="gpt-4o", max_tokens=4)).status == 200
        async with gateway_of(store_url, engine_of(), models=["gpt-*"], **ALIASES) as client:
            assert (await client.chat(model="gpt-4o")).status == 403
            assert (await client.request("GET", "/v1/models/gpt-4o")).status == 403
            assert (await client.request("GET", "/v1/models")).json["data"] == []

    bounded(main)


@pytest.mark.parametrize(
    ("path", "methods"),
    [(CHAT, "POST, OPTIONS"), ("/v1/models", "GET, HEAD, OPTIONS"), ("/healthz", "GET, HEAD, OPTIONS")],
)
def test_options_names_the_methods(store_url: str, path: str, methods: str) -> None:
    async def main() -> None:
        async with gateway_of(store_url, engine_of()) as client:
            answer = await client.request("OPTIONS", path, headers=[])
            assert (answer.status, answer.body, answer.headers["allow"]) == (200, b"", methods)
            assert (await client.request("OPTIONS", "/nothing", headers=[])).status == 404

    bounded(main)


def test_head_is_get_without_the_body(store_url: str) -> None:
    async def main() -> None:
        async with gateway_of(store_url, engine_of()) as client:
            for path, status in (("/v1/models", 200), ("/healthz", 200), (CHAT, 405), ("/nope", 404)):
                answer = await client.request("HEAD", path)
                assert (answer.status, answer.body) == (status, b"")
                assert int(answer.headers["content-length"]) > 0

    bounded(main)


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v1/chat/completions/", CHAT),
        ("/v1//chat/completions", CHAT),
        ("/v1/v1/chat/completions", CHAT),
        ("/chat/completions", CHAT),
        ("/openai/v1/chat/completions", CHAT),
        ("/api/chat/completions", CHAT),
        ("/openai/deployments/gpt-4o/chat/completions", CHAT),
        ("//v1/models", "/v1/models"),
        ("/models", "/v1/models"),
        ("/v1/healthz", "/healthz"),
        ("/v1", None),
        ("/", None),
        ("/v1/chat/completion", None),
        ("/a" * 2000, None),
    ],
)
def test_a_path_that_is_nearly_right_gets_a_hint(store_url: str, path: str, meant: str | None) -> None:
    async def main() -> None:
        async with gateway_of(store_url, engine_of()) as client:
            answer = await client.request("POST", path)
            assert (answer.status, answer.error["code"]) == (404, "unknown_url")
            message = answer.error["message"]
            assert message.endswith(f"Did you mean {meant}?") if meant else "Did you mean" not in message
            assert len(message) < 300

    bounded(main)


class Line:
    """What a client would see of a stream."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.stuck = asyncio.Event()
        self.stuck.set()

    async def send(self, message: Any) -> None:
        self.parts.append(message.get("body", b""))
        await self.stuck.wait()

    def exchange(self) -> HttpExchange:
        scope = {"type": "http", "method": "POST", "path": "/x", "headers": []}
        return HttpExchange(scope, asyncio.Queue().get, self.send, HeadSampler(None))


COMMENT = b": keep-alive\n\n"


def test_a_quiet_stream_gets_comments() -> None:
    async def main() -> None:
        line = Line()
        exchange = line.exchange()
        exchange.keep_alive(1e9, 15)
        assert line.parts == [], "nothing has begun"
        await exchange.start_stream()
        exchange._quiet_since = 100.0
        await exchange.write(b"data: 1\n\n")
        for now in (101.0, 115.0, 116.0, 117.0, 130.0, 131.0):
            exchange.keep_alive(now, 15)
            await asyncio.sleep(0)
        assert line.parts[1:] == [b"data: 1\n\n", COMMENT, COMMENT]
        await exchange.end(b"data: [DONE]\n\n")
        exchange.keep_alive(500.0, 15)
        await asyncio.sleep(0)
        assert line.parts[-1] == b"data: [DONE]\n\n"

    asyncio.run(main())


def test_no_comment_within_an_event_nor_for_a_client_that_takes_nothing() -> None:
    async def main() -> None:
        line = Line()
        exchange = line.exchange()
        await exchange.start_stream()
        await exchange.write(b"data: {")
        for now in (100.0, 200.0, 300.0):
            exchange.keep_alive(now, 15)
            await asyncio.sleep(0)
        assert line.parts[1:] == [b"data: {"]
        await exchange.write(b"}\r\n\r\n")
        exchange.keep_alive(350.0, 15)
        exchange.keep_alive(370.0, 15)
        # Before the comment could be sent.
        await exchange.write(b"data: {")
        await asyncio.sleep(0)
        assert line.parts[3:] == [b"data: {"]
        await exchange.write(b"}\n\n")
        line.stuck.clear()
        for now in (400.0, 500.0, 600.0, 700.0):
            exchange.keep_alive(now, 15)
            await asyncio.sleep(0)
        assert line.parts[4:] == [b"}\n\n", COMMENT]
        line.stuck.set()
        await asyncio.sleep(0)
        await exchange.end()

    asyncio.run(main())


def test_a_body_that_is_no_stream_gets_none() -> None:
    async def main() -> None:
        line = Line()
        exchange = line.exchange()
        await exchange.start_body(None)
        await exchange.write(b"{")
        for now in (100.0, 200.0):
            exchange.keep_alive(now, 15)
            await asyncio.sleep(0)
        assert line.parts[1:] == [b"{"]

    asyncio.run(main())


def test_the_overseer_looks_for_quiet_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.api.server.request_watchdog.ROUND_SECONDS", 0.0)
    monkeypatch.setattr("gateway.api.server.request_watchdog.CHECK_SECONDS", 0.001)

    async def main() -> None:
        line = Line()
        exchange = line.exchange()
        watchdog = RequestWatchdog(keep_alive=0.01)
        task = asyncio.create_task(watchdog.run())
        watchdog.enter(exchange)
        await exchange.start_stream()
        await until(lambda: line.parts.count(COMMENT) >= 2)
        watchdog.leave(exchange)
        await exchange.end()
        task.cancel()

    bounded(main)
