"""Through the application: upstreams that answer wrongly. Each request goes elsewhere before its first byte, or ends
with the right error; nothing is left of it, and the log says which replica did what.
"""

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Any

import orjson
import pytest

import routing.dispatch.failover_stream
import routing.transports.openai.openai_connection
from tests.asgi import CHAT, HELLO, Answer, Client, gateway_of
from tests.certificates import Authority
from tests.gateway.api.relay.test_relay_answer import NAME, hosted
from tests.loops import until
from tests.upstreams import ANSWER, END, EVENT, STREAM, Caller, Heard, Upstream, chunk, plain, streamed, upstream

FAILED = (502, "replica_failed")
LOST = (503, "replica_unavailable")


def closing(data: bytes) -> Any:
    async def behave(caller: Caller, heard: Heard) -> None:
        await caller.say(data)

    return behave


#: What it does, to which kind of request, what the client is told if there is nobody else, and what the log says.
CASES: list[tuple[str, Any, tuple[bool, ...], tuple[int, str], str]] = [
    ("HTML", plain(b"<html></html>", kind="text/html"), (True, False), FAILED, "it answers with text/html"),
    ("half a JSON", plain(ANSWER[:60]), (False,), FAILED, "not a whole JSON object"),
    ("half an answer", closing(plain(ANSWER)[:-9]), (False,), FAILED, "closed within its answer"),
    ("500", plain(b"boom", "500 Oh"), (True, False), FAILED, "status 500: 4 characters"),
    ("503", plain(b"busy", "503 No"), (True, False), LOST, "status 503: 4 characters"),
    ("429", plain(b"slow", "429 Slow", retry_after="7"), (True, False), (429, "upstream_rate_limited"), "status 429"),
    ("401", plain(b"who", "401 No"), (True, False), (502, "upstream_refuses_key"), "refuses our key"),
    ("no end", streamed(b": ping\n\n"), (True,), FAILED, "stopped before its end"),
    ("not a stream", plain(ANSWER), (True,), FAILED, "it answers with application/json"),
    ("a redirect", plain(b"", "302 Found", location="http://127.0.0.1:1/"), (True, False), FAILED, "a redirect"),
    ("another protocol", b"SSH-2.0-OpenSSH_9.9\r\n\r\n", (True, False), FAILED, "not HTTP/1.1"),
    ("an upgrade", b"HTTP/1.1 101 Switching\r\nupgrade: h2c\r\n\r\n", (True, False), FAILED, "changes the protocol"),
    ("a long head", b"HTTP/1.1 200 OK\r\na: " + b"x" * 70_000 + b"\r\n\r\n", (True, False), FAILED, "bytes"),
    ("a long event", streamed(*[b"data: " + b"x" * (1 << 20)] * 9), (True,), FAILED, "an event of more than"),
    ("an error as an event", streamed(b'data: {"error":{"message":"boom"}}\n\n'), (True,), FAILED, "18 characters"),
    ("nothing", closing(b""), (True, False), FAILED, "closed without an answer"),
]
EACH = [pytest.param(*case[1:2], stream, *case[3:], id=f"{case[0]}-{stream}") for case in CASES for stream in case[2]]


@pytest.fixture(autouse=True)
def every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (routing.transports.openai.openai_connection, routing.dispatch.failover_stream):
        monkeypatch.setattr(module.log, "filters", [])


def is_whole(answer: Answer, *, stream: bool) -> bool:
    return answer.status == 200 and (answer.events[-1] == "[DONE]" if stream else bool(answer.json["choices"]))


async def nothing_is_left(client: Client, *upstreams: Upstream) -> None:
    """But connections that are kept: those of requests, and those of the looks at each upstream."""
    connections = list(client.gateway.models[NAME].fleet._connections.values())
    assert [connection.in_flight for connection in connections] == [0] * len(connections)
    assert not client.gateway.models[NAME].admission_queue._promised
    pools: dict[str, list[Any]] = {
        each.spec.address: [each._pool, each._provider._check._pool]  # type: ignore[attr-defined]
        for each in connections
    }
    await until(lambda: all(one.connections == len(one._idle) <= 2 for both in pools.values() for one in both))
    await until(lambda: all(one.open == sum(pool.connections for pool in pools[one.url]) for one in upstreams))


@pytest.mark.parametrize(("behaves", "stream", "told", "said"), EACH)
async def test_alone_and_beside_a_sound_one(
    store_url: str, behaves: Any, stream: bool, told: tuple[int, str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with upstream() as bad, upstream() as sound:
            bad.behaves = behaves
            sound.behaves = streamed(EVENT % b"hi", END) if stream else plain(ANSWER)
            async with gateway_of(store_url, more_models=[hosted(bad)]) as client:
                answer = await client.chat(model=NAME, stream=stream)
                assert (answer.status, answer.error["code"]) == told
                assert not any(word in answer.error["message"] for word in ("theirs", "127.0.0.1", "up/0"))
                assert told[0] != 429 or 0 < int(answer.headers["retry-after"]) <= 7
                await nothing_is_left(client, bad)
            lines = [record.getMessage() for record in caplog.records if said in record.getMessage()]
            assert any("replica up/0 at http://127.0.0.1:" in line for line in lines), caplog.text
            round_robin = hosted(bad, sound, routing={"policy": "round_robin"})
            async with gateway_of(store_url, more_models=[round_robin]) as client:
                await client.proven(2, NAME)
                heard = len(bad.heard)
                for _ in range(2):
                    answer = await client.chat(model=NAME, stream=stream)
                    assert is_whole(answer, stream=stream), answer.body
                assert len(bad.heard) > heard
                await nothing_is_left(client, bad, sound)


async def test_a_certificate_of_another_name(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A start need not wait for the model that has no other upstream.
    monkeypatch.setattr("gateway.server.gateway.START_SECONDS", 0.2)
    authority = Authority(tmp_path)
    signed = authority.signed(hosts=("api.example",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.certificate, signed.key)

    async with upstream(context) as wrong, upstream() as sound:
        pools = [
            {"name": "up", "engine": "openai", "replicas": [wrong.url], "tls": {"ca": str(authority.ca)}},
            {"name": "other", "engine": "openai", "replicas": [sound.url]},
        ]
        models = [hosted(sound) | {"pools": pools[:count], "name": name} for name, count in (("one", 1), (NAME, 2))]
        async with gateway_of(store_url, more_models=models) as client:
            await until(lambda: client.gateway.models[NAME].fleet.ready_replicas == 1)
            answer = await client.chat(model=NAME)
            assert is_whole(answer, stream=False)
            fleet = client.gateway.models[NAME].fleet
            await until(lambda: "not accepted for 127.0.0.1" in fleet.problems().get("up/0", ""))
            answer = await client.chat(model="one")
            assert (answer.status, answer.error["code"]) == LOST
        assert not wrong.heard


async def test_an_endless_stream_ends_at_the_deadline(store_url: str) -> None:
    gone: list[bool] = []

    async def endless(caller: Caller, heard: Heard) -> None:
        await caller.say(STREAM)
        try:
            while True:
                await caller.say(chunk(EVENT % b"more") * 100)
                await asyncio.sleep(0.01)
        finally:
            gone.append(True)

    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:
        found.behaves = endless
        call = client.call("POST", CHAT)
        call.put(orjson.dumps({"model": NAME, "messages": HELLO, "stream": True}))
        await until(lambda: call.body.count(b"more") > 200)
        client.out_of_time()
        answer = await call.answer()
        assert answer.status == 200
        assert answer.events[0]["model"] == NAME
        assert answer.events[-1]["error"]["code"] == "timeout"
        await until(lambda: gone)
        await nothing_is_left(client, found)


async def test_of_two_that_race_one_answers(store_url: str) -> None:
    async def slow(caller: Caller, heard: Heard) -> None:
        await caller.gone()

    async with upstream() as first, upstream() as second:
        first.behaves, second.behaves = slow, streamed(EVENT % b"hi", END)
        racing = {"policy": "round_robin", "hedging": {"after_ms": 20, "max_prompt_tokens": 1000}}
        async with gateway_of(store_url, more_models=[hosted(first, second, routing=racing)]) as client:
            await client.proven(2, NAME)
            for _ in range(2):
                answer = await client.chat(model=NAME, stream=True, stream_options={"include_usage": True})
                assert is_whole(answer, stream=True), answer.body
                assert answer.events[-2]["usage"]["completion_tokens"] == 3
            assert first.heard and len(second.heard) == 2
            assert orjson.loads(first.heard[0].body) == orjson.loads(second.heard[0].body)
            await nothing_is_left(client, first, second)
