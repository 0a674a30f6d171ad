"""Upstreams that answer wrongly: each ends the request with the right error and leaves nothing behind."""

import logging
import ssl
from pathlib import Path
from typing import Any

import pytest

import routing.transports.openai.openai_connection
from protos.errors import (
    BodyTooLarge,
    ContentFiltered,
    ContextLengthExceeded,
    InvalidRequest,
    PenstockError,
    ReplicaFailed,
    ReplicaUnavailable,
    UpstreamRateLimited,
    UpstreamRefuses,
    UpstreamRefusesKey,
)
from routing.health.refusals import CLEAR_REFUSALS, FUNDS_SECONDS, UNCLEAR_REQUESTS
from routing.health.replica_status import State
from routing.transports.replica_tls import TlsFiles
from tests.certificates import Authority
from tests.loops import bounded, until
from tests.routing_transports import OpenAITransport, connected
from tests.upstreams import ANSWER, END, EVENT, LAST, STREAM, Caller, Heard, chunk, plain, streamed, upstream

DONE = b"data: [DONE]\n\n"
HTML = b"<html><body>It works!</body></html>"


@pytest.fixture(autouse=True)
def every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    # Tests fail more requests a second than are spoken of.
    monkeypatch.setattr(routing.transports.openai.openai_connection.log, "filters", [])


def refused_with(behaves: Any, *, stream: bool = True, **settings: Any) -> tuple[PenstockError, list[str]]:
    """What a request ends with before any of it was relayed, and why the replica should be ejected."""
    found: list[PenstockError] = []
    failing: list[str] = []

    async def main() -> None:
        async with upstream() as fake, connected(fake, **settings) as transport:
            fake.behaves = behaves
            client = await transport.ask(stream=stream).begun()
            assert client.error is not None and client.relay is None and client.cached is None
            found.append(client.error)
            failing.extend(transport.failing)

    bounded(main)
    return found[0], failing


def closing(data: bytes) -> Any:
    async def behave(caller: Caller, heard: Heard) -> bool:
        await caller.say(data)
        return False

    return behave


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("behaves", "said"),
    [
        (plain(HTML, kind="text/html"), "text/html"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", "no content type"),
        (plain(HTML, "500 Internal Server Error"), "status 500: 35 characters"),
        (plain(b"", "302 Found", location="http://127.0.0.1:1/"), "redirect"),
        (plain(b'{"error":{"message":"no such model: theirs"}}', "404 Not Found"), "status 404: 21 characters"),
        (plain(b"", "405 Method Not Allowed"), "status 405"),
        (plain(b"", "204 No Content"), "status 204"),
        (closing(b""), "closed"),
        (closing(b"HTTP/1.1 200 OK\r\n"), "closed"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000 + b"\r\n", "headers"),
        (closing(plain(b"x" * (1 << 20), "500 Oh")), "status 500"),
    ],
)
def test_no_answer_of_either_kind(behaves: Any, said: str, stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    error, _ = refused_with(behaves, stream=stream)
    assert isinstance(error, ReplicaFailed)
    assert said in error.detail
    assert "theirs" not in error.message and "127.0.0.1" not in error.message
    lines = [record for record in caplog.records if "req_1" in record.getMessage()]
    assert len(lines) == 1
    assert all(part in lines[0].getMessage() for part in ("replica p/0 at http://127.0.0.1:", said))


@pytest.mark.parametrize(
    ("behaves", "said"),
    [
        (plain(ANSWER), "application/json"),
        (streamed(), "stopped before its end"),
        (streamed(b": ping\n\n"), "stopped before its end"),
        (streamed(DONE), "no events"),
        (streamed(b'data: {"error":{"message":"boom"}}\n\n', DONE), "an error in the stream: 18 characters"),
        (streamed(b'data: {"usage":\n\n'), "not the API's JSON"),
        (closing(STREAM + chunk(b"data: {")), "closed within"),
        (streamed(*[b"data: " + b"x" * (1 << 20)] * 9), "an event of more than"),
        (streamed(*[b": " + b"x" * (1 << 20) + b"\n\n"] * 9), "comments alone"),
    ],
)
def test_no_stream(behaves: Any, said: str) -> None:
    error, _ = refused_with(behaves)
    assert isinstance(error, ReplicaFailed)
    assert said in error.detail


@pytest.mark.parametrize(
    ("behaves", "said"),
    [
        (streamed(EVENT % b"a"), "text/event-stream"),
        (plain(ANSWER[:-1]), "not a whole JSON"),
        (plain(b"[]"), "not a whole JSON"),
        (plain(b""), "not a whole JSON"),
        (plain(b"{}"), "no choices"),
        (plain(b'{"error":{"message":"boom"}}'), "an error with a good status"),
        (closing(plain(ANSWER)[:-1]), "closed within"),
        (plain(b"x" * (2 << 20)), "not a JSON object"),
    ],
)
def test_no_whole_answer(behaves: Any, said: str) -> None:
    error, _ = refused_with(behaves, stream=False)
    assert isinstance(error, ReplicaFailed)
    assert said in error.detail


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (closing(LAST), "before its end"),
        (closing(b""), "closed within"),
        (closing(b"zz\r\n"), "not HTTP"),
        (closing(chunk(b'data: {"error":{"message":"boom"}}\n\n')), "an error in the stream"),
    ],
)
async def test_a_stream_that_breaks_says_so_after_what_has_come(end: Any, said: str) -> None:
    async with upstream() as fake, connected(fake) as transport:

        async def behave(caller: Caller, heard: Heard) -> object:
            await caller.say(STREAM + chunk(EVENT % b"a"))
            await until(lambda: client.relay)
            return await end(caller, heard)

        fake.behaves = behave
        client = transport.ask()
        await client.begun()
        assert client.relay is not None
        assert await client.relay.read() == (EVENT % b"a").replace(b"theirs", b"ours")
        with pytest.raises(ReplicaFailed) as caught:
            await client.relay.read()
        assert said in caught.value.detail
        assert client.error is caught.value
        assert not client.finishes


@pytest.mark.parametrize("end", [b"}", b"]"])
async def test_a_long_answer_that_breaks(end: bytes) -> None:
    async with upstream() as fake, connected(fake) as transport:
        body = b'{"model":"theirs","x":"' + b"x" * (2 << 20) + b'"' + end
        fake.behaves = closing(plain(body)[: -1 if end == b"}" else len(body) * 2])
        with pytest.raises(ReplicaFailed):
            await transport.ask(stream=False).answer()


@pytest.mark.parametrize("surplus", [EVENT % b"x", b"garbage"])
@pytest.mark.parametrize("apart", [True, False])
async def test_what_follows_the_end_mark_is_of_no_interest_and_the_connection_not_used_again(
    surplus: bytes, apart: bool
) -> None:
    async with upstream() as fake, connected(fake) as transport:

        async def behave(caller: Caller, heard: Heard) -> bool:
            await caller.say(STREAM + chunk(EVENT % b"a" + END + (b"" if apart else surplus)))
            if apart:
                await until(lambda: client.finishes)
                await caller.say(chunk(surplus))
            await caller.gone()
            return False

        fake.behaves = behave
        client = transport.ask()
        assert (await client.answer()).endswith(DONE)
        assert client.error is None and len(client.finishes) == 1
        await until(lambda: transport.connection._pool.connections == 0)


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        ("429 Too Many Requests", {"retry_after": "12"}, 12.0),
        ("429 Too Many Requests", {"retry_after_ms": "1500", "retry_after": "12"}, 1.5),
        ("429 Too Many Requests", {}, 2.0),
        ("429 Too Many Requests", {"retry_after": "86400"}, 300.0),
        ("429 Too Many Requests", {"retry_after": "soon"}, 2.0),
        ("503 Service Unavailable", {"retry_after": "3"}, 3.0),
    ],
)
async def test_one_that_is_over_its_limit_is_left_alone_for_so_long(
    status: str, headers: dict[str, str], seconds: float
) -> None:
    async with upstream() as fake, connected(fake) as transport:
        fake.behaves = plain(b"{}", status, **headers)
        client = await transport.ask().begun()
        limited = status.startswith("429")
        assert isinstance(client.error, UpstreamRateLimited) is limited
        assert isinstance(client.error, ReplicaUnavailable)
        assert (client.error.status, client.error.retry_after) == (429 if limited else 503, seconds)
        assert not transport.is_connected() and not transport.connection.ready
        assert f"{seconds:g} s" in transport.connection.health.reason
        with pytest.raises(UpstreamRateLimited):
            transport.ask()
        await transport.connection._provider.look()
        transport.clock.now += seconds - 0.1
        transport.connection.tick(probes=True)
        assert not transport.is_connected()
        transport.clock.now += 0.2
        transport.connection.tick(probes=True)
        assert transport.is_connected()
        await until(lambda: transport.connection.health.state is State.RETURNING)
        fake.behaves = streamed(EVENT % b"a", END)
        assert await transport.ask().answer()
        assert not transport.failing


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
async def test_a_key_that_is_refused_again_and_again_is_for_the_operator(
    status: str, caplog: pytest.LogCaptureFixture
) -> None:
    body = b'{"error":{"message":"Incorrect API key provided: sk-secret"}}'
    async with upstream() as fake, connected(fake, key=lambda: "sk-secret") as transport:
        fake.behaves = plain(body, status)
        for number in range(CLEAR_REFUSALS):
            assert not transport.failing, number
            error = (await transport.ask().begun()).error
            assert isinstance(error, UpstreamRefusesKey)
            assert (error.status, error.code) == (502, "upstream_refuses_key")
            assert "secret" not in error.message + error.detail
        (failing,) = transport.failing
    assert any(record.levelno == logging.ERROR and "p/0" in record.getMessage() for record in caplog.records)
    assert "secret" not in caplog.text + failing


async def test_a_refusal_makes_it_look_whether_the_key_is_refused_by_itself() -> None:
    async with upstream() as fake, connected(fake, health_seconds=3600.0) as transport:
        fake.health = fake.behaves = plain(b"", "401 Unauthorized")
        await transport.ask().begun()
        await until(lambda: transport.connection.health.state is State.REFUSED)


async def test_a_refusal_that_blames_nobody_counts_once_several_tenants_had_it() -> None:
    async with upstream() as fake, connected(fake) as transport:
        fake.behaves = plain(b"<html>blocked</html>", "403 Forbidden", kind="text/html")
        for number in range(2 * UNCLEAR_REQUESTS):
            error = (await transport.ask(salt="one", seed=number).begun()).error
            assert type(error) is UpstreamRefuses
        assert not transport.failing
        await transport.ask(salt="other", seed=0).begun()
        assert len(transport.failing) == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_flagged_prompt_speaks_for_the_upstream(stream: bool) -> None:
    flagged = b'{"error":{"code":403,"message":"Your input was flagged by moderation"}}'
    async with upstream() as fake, connected(fake) as transport:
        within = streamed(b"data: " + flagged + b"\n\n") if stream else plain(flagged)
        for behaves in (plain(flagged, "403 Forbidden"), within):
            fake.behaves = behaves
            error = (await transport.ask(stream=stream).begun()).error
            assert isinstance(error, ContentFiltered)
            assert (error.status, error.code) == (400, "content_filter")
        assert not transport.failing and transport.is_connected()


async def test_an_account_that_cannot_pay_is_left_alone_for_longer_each_time(caplog: pytest.LogCaptureFixture) -> None:
    async with upstream() as fake, connected(fake) as transport:
        fake.behaves = plain(b'{"error":{"message":"Insufficient credits"}}', "402 Payment Required")
        for seconds in (FUNDS_SECONDS, 2 * FUNDS_SECONDS):
            error = (await transport.ask().begun()).error
            assert isinstance(error, UpstreamRateLimited) and error.retry_after == seconds
            assert not transport.is_connected()
            transport.clock.now += seconds
            transport.connection.tick(probes=True)
            assert transport.is_connected()
        assert any(record.levelno == logging.ERROR and "cannot pay" in record.getMessage() for record in caplog.records)
        fake.behaves = streamed(EVENT % b"a", END)
        assert await transport.ask().answer()
        fake.behaves = plain(b'{"error":{"code":"insufficient_quota"}}', "429 Too Many")
        error = (await transport.ask().begun()).error
        assert error is not None and error.retry_after == FUNDS_SECONDS
        assert not transport.failing


async def test_an_account_that_can_pay_for_less_goes_on() -> None:
    async with upstream() as fake, connected(fake) as transport:
        fake.behaves = plain(b'{"error":{"message":"You can only afford 100 tokens"}}', "402 Payment Required")
        for _ in range(10):
            assert isinstance((await transport.ask().begun()).error, UpstreamRateLimited)
        assert transport.is_connected() and not transport.failing


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        ("400 Bad", b'{"error":{"message":"theirs \\n\\u0000 it","param":"top_p"}}', InvalidRequest, "ours   it"),
        ("422 Un", b'{"detail":"no"}', InvalidRequest, "no"),
        ("400 Bad", b'{"object":"error","message":"maximum context length is 9"}', ContextLengthExceeded, "max"),
        ("400 Bad", b'{"error":{"message":"long","code":"context_length_exceeded"}}', ContextLengthExceeded, "long"),
        ("413 Large", HTML, BodyTooLarge, "The request is larger"),
        ("400 Bad", HTML, InvalidRequest, "The model's upstream"),
        ("400 Bad", b'{"error":"plain"}', InvalidRequest, "plain"),
        ("400 Bad", b'{"error":{"message":"%b"}}' % (b"x" * 2000), InvalidRequest, "x" * 511 + "…"),
        ("400 Bad", b"[" * 100_000, InvalidRequest, "The model's upstream"),
    ],
)  # fmt: skip
def test_a_clients_mistake_is_told_to_the_client(status: str, body: bytes, kind: type[Any], message: str) -> None:
    error, failing = refused_with(plain(body, status))
    assert type(error) is kind
    assert error.message.startswith(message)
    assert len(error.message) <= 512
    assert not failing
    if b"top_p" in body:
        assert error.param == "top_p"


async def test_one_that_cannot_be_had_again_and_again_is_ejected() -> None:
    failing: list[str] = []

    async with upstream() as fake, connected(fake) as transport:
        fake.behaves = plain(b"", "503 Service Unavailable")
        for _ in range(5):
            client = await transport.ask().begun()
            assert isinstance(client.error, ReplicaUnavailable)
        failing.extend(transport.failing)
    assert len(failing) == 1 and "503" in failing[0]


async def test_one_that_is_gone() -> None:
    async with upstream() as fake:
        transport = OpenAITransport(fake)
        transport.connection.start()
        await until(lambda: transport.connection.connected)
    client = await transport.ask().begun()
    assert isinstance(client.error, ReplicaUnavailable) and "no connection" in client.error.detail
    await until(lambda: not transport.connection.connected)
    await transport.connection.aclose()


async def test_silence_is_a_fault() -> None:
    async with upstream() as fake, connected(fake, first_byte_seconds=0.25) as transport:

        async def behave(caller: Caller, heard: Heard) -> None:
            await caller.gone()

        fake.behaves = behave
        client = transport.ask()
        await until(lambda: fake.heard)
        for _ in range(3):
            transport.connection._pool.tick()
        assert isinstance(client.error, ReplicaFailed) and "for too long" in client.error.detail


async def test_a_certificate_of_another_name(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    signed = authority.signed(hosts=("api.example",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.certificate, signed.key)

    async with upstream(context) as fake:
        transport = OpenAITransport(fake, tls=TlsFiles(authority.ca))
        transport.connection.start()
        await until(lambda: "certificate" in transport.connection.health.reason)
        assert not transport.connection.connected
        await transport.connection.aclose()
        async with connected(fake, tls=TlsFiles(authority.ca, server_name="api.example")) as good:
            fake.behaves = streamed(EVENT % b"a", END)
            assert await good.ask().answer()
            assert fake.heard[0].headers["host"].startswith("api.example:")


@pytest.mark.parametrize(
    ("status", "refused"), [("401 Unauthorized", True), ("500 Oh", False), ("404 Not Found", False)]
)
async def test_what_a_look_finds_wrong(status: str, refused: bool) -> None:
    async with upstream() as fake:
        fake.health = plain(b"", status)
        transport = OpenAITransport(fake)
        transport.connection.start()
        state = State.REFUSED if refused else State.CONNECTING
        await until(lambda: status[:3] in transport.connection.health.reason)
        assert transport.connection.health.state is state
        await transport.connection.aclose()


async def test_closing_the_transport_fails_what_is_open() -> None:
    async with upstream() as fake, connected(fake) as transport:

        async def behave(caller: Caller, heard: Heard) -> None:
            if len(fake.heard) == 1:
                await caller.say(STREAM + chunk(EVENT % b"a"))
            await caller.gone()

        fake.behaves = behave
        clients = [await transport.ask().begun(), transport.ask(), transport.ask(stream=False)]
        await until(lambda: len(fake.heard) == 3)
        clients.append(transport.ask())
        await transport.connection.aclose()
        assert all(isinstance(client.error, ReplicaUnavailable) for client in clients)
