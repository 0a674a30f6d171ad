"""Nothing of a prompt or an answer is in the log, in metrics or in the store, whatever goes wrong."""

import asyncio
import contextlib
import copy
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import orjson
import pytest
import redis

import gateway.inference.prepare
import gateway.text.sequence_text
from gateway.telemetry.record_publisher import RecordPublisher
from observability.logs import JsonLines, RateLimit, TextLines
from observability.record import RequestRecord
from observability.request_log import RequestLog
from observability.tracing.spans import SpanMaker, process_resource
from protos.types import Failure
from replicas.engines.answer_lengths import Corpus
from tests.asgi import CHAT, COMPLETIONS, Client, gateway_of
from tests.fakes import DiesAfter, DropsStream, RefusesWith, SilentEngine
from tests.gateway.admin import bench
from tests.harness import MODEL, engine_of, serving, tekken
from tests.loops import until
from tests.upstreams import ANSWER, END, EVENT, LAST, STREAM, Caller, Heard, chunk, plain, streamed, upstream

MARK = "swordfish-7731"
#: As an engine has it.
IDS = tekken().tokenizer.encode(MARK, special=False)
SAYS_IT = Corpus((tuple(tekken().tokenizer.encode(f"The password is {MARK}. ", special=False)),), eos=2)
ASKED = [{"role": "user", "content": f"Do you know {MARK}?"}]
HOSTED = "hosted"
ECHO = orjson.dumps({"error": {"message": f"cannot answer 'Do you know {MARK}?'", "code": "bad", "param": "messages"}})


class Log(logging.Handler):
    """All that the process would write, and what it was made of."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self._formatters = TextLines(coloured=False), JsonLines()

    def emit(self, record: logging.LogRecord) -> None:
        for formatter in self._formatters:
            fresh = copy.copy(record)
            # Another handler has written the traceback in its own way.
            fresh.exc_text = None
            self.lines.append(f"{formatter.format(fresh)} {fresh.args!r} {fresh.stack_info or ''}")

    def check(self) -> None:
        ids = ", ".join(map(str, IDS))
        assert not [line for line in self.lines if MARK in line or ids in line]


class Told:
    """A `Sink` that writes whatever traces and the log's lines about requests are made of to a log."""

    def __init__(self, heard: Log) -> None:
        self._heard = heard
        self._maker = SpanMaker(process_resource("test"), "host")
        self._lines = RequestLog("all", per_second=1000)
        self.records = 0

    def take(self, records: Sequence[RequestRecord]) -> None:
        self.records += len(records)
        self._lines.take(records)
        for record in records:
            self._heard.lines.extend(span.to_json() for span in self._maker.spans(record))

    async def aclose(self) -> None:
        pass


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """Every logger's every line."""
    monkeypatch.setattr(RateLimit, "filter", lambda *_: True)
    heard, root = Log(), logging.getLogger()
    level = root.level
    root.addHandler(heard)
    root.setLevel(logging.DEBUG)
    yield heard
    root.setLevel(level)
    root.removeHandler(heard)
    heard.check()


@contextlib.asynccontextmanager
async def quiet(log: Log, store_url: str, *engines: Any, **options: Any) -> AsyncIterator[Client]:
    """A gateway, after which the store, the metrics, spans and lines about requests are looked through too."""
    tenant, told = {"name": "acme", "limits": {"tpm": 10**9}}, Told(log)
    async with gateway_of(store_url, *engines, tenant=tenant, **options) as client:
        client.gateway.services.record_publisher = RecordPublisher((told,))
        for model in client.gateway.models.values():
            await until(model.fleet.candidates)
        yield client
        await until(lambda: not client.active)
        client.gateway.services.record_publisher.flush()
    assert told.records
    async with bench.bench_of(store_url, bench.config_of(tenants=[tenant])) as admin:
        metrics = (await admin.ask("GET", "/metrics")).body
        assert b'tenant="acme"' in metrics
        assert MARK.encode() not in metrics
    with redis.Redis.from_url(store_url) as store:
        for key in store.keys("*"):
            assert MARK.encode() not in key + (store.dump(key) or b"")


def hosted(url: str, name: str = HOSTED, **fields: Any) -> dict[str, Any]:
    pool = {"name": "up", "engine": "openai", "replicas": [url]}
    return {"name": name, "context": 4096, "pools": [pool], **fields}


async def answers(client: Client, **fields: Any) -> list[bytes]:
    """What comes of a request of each dialect, streamed and whole."""
    found = []
    for stream in (False, True):
        found.append((await client.chat(messages=ASKED, stream=stream, **fields)).body)
        found.append((await client.complete(prompt=ASKED[0]["content"], stream=stream, **fields)).body)
    return found


BODIES: list[dict[str, Any]] = [
    {"messages": ASKED, MARK: 1},
    {"messages": ASKED, "temperature": MARK},
    {"messages": ASKED, "stop": [MARK] * 99},
    {"messages": ASKED, "logit_bias": {MARK: 1}},
    {"messages": ASKED, "response_format": {"type": "json_schema", "json_schema": {"name": MARK, "schema": MARK}}},
    {"messages": ASKED, "tools": [{"type": "function", "function": {"name": f"{MARK}!"}}]},
    {"messages": ASKED, "max_tokens": 0},
    {"messages": ASKED, "guided_regex": f"({MARK}"},
    {"messages": [{"role": MARK, "content": "x"}]},
    {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": MARK}}]}]},
    {"messages": [{"role": "assistant", "content": MARK}, {"role": "assistant", "content": MARK}]},
    {"messages": [{"role": "tool", "content": MARK}]},
    {"messages": MARK},
    {"messages": [MARK]},
    {"messages": [{"role": "user", "content": MARK * 3000}]},
]
RAW = [
    b'{"model": "%b", "messages": [' % MARK.encode(),
    b'"%b"' % MARK.encode(),
    b'{"%b": \xff}' % MARK.encode(),
    b'{"messages": ["%b\\ud800"]}' % MARK.encode(),
    b"[" * 5000 + MARK.encode(),
    MARK.encode() * 1000,
]


async def test_requests_that_are_answered(store_url: str, log: Log) -> None:
    async with quiet(log, store_url, engine_of(corpus=SAYS_IT), explain=True) as client:
        assert all(MARK.encode() in body.replace(b"\\", b"") for body in (await answers(client, max_tokens=40))[:2])
        headers = [(b"authorization", b"Bearer " + client.key.encode()), (b"x-penstock-explain", b"1")]
        for asked in (b"1", b"dry-run", MARK.encode()):
            headers[1] = (b"x-penstock-explain", asked)
            await client.request("POST", CHAT, {"model": MODEL, "messages": ASKED, "max_tokens": 9}, headers)
    assert any("route" in line for line in log.lines)


async def test_requests_that_are_refused(store_url: str, log: Log) -> None:
    async with quiet(log, store_url, engine_of(), max_body_bytes=100_000) as client:
        for fields in BODIES:
            answer = await client.request("POST", CHAT, {"model": MODEL, **fields})
            assert 400 <= answer.status < 500, (fields, answer.body)
        for raw in RAW:
            assert (await client.request("POST", CHAT, raw)).status == 400
        assert (await client.chat(model=MARK)).status == 404
        assert (await client.request("POST", f"/v1/{MARK}", b"")).status == 404
        assert (await client.request("POST", CHAT, MARK.encode() * 10_000)).status == 413
        assert (await client.request("POST", CHAT, b"", [(b"authorization", MARK.encode())])).status == 401
        await client.chat()


async def test_defects_of_ours(store_url: str, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: object) -> Any:
        try:
            raise KeyError(f"what is {given}? {MARK}")
        except KeyError:
            raise ValueError(f"cannot read {given} {MARK}") from None

    def feeds(*_: object) -> Any:
        try:
            raise KeyError(MARK)
        except KeyError as error:
            raise RuntimeError(f"{MARK} is no text") from error

    async with quiet(log, store_url, engine_of(corpus=SAYS_IT)) as client:
        with monkeypatch.context() as patch:
            patch.setattr(gateway.inference.prepare, "encode_prompt", fails)
            told = await answers(client)
        with monkeypatch.context() as patch:
            for method in ("feed", "feed_last"):
                patch.setattr(gateway.text.sequence_text.SequenceText, method, feeds)
            told += await answers(client)
        assert all(b"The gateway failed on this request" in body and MARK.encode() not in body for body in told)
        await client.chat()
    # What kind of error it was and where, and not more.
    written = "\n".join(log.lines)
    assert all(part in written for part in ("ValueError", "RuntimeError", "KeyError", "test_quiet.py"))


async def test_replicas_that_fail(store_url: str, log: Log) -> None:
    dropping = DropsStream(tokens=2)
    failure = Failure("engine_error", "CUDA error")
    for engine in (DiesAfter(3), RefusesWith(failure), RefusesWith(Failure("unsupported_parameter", "x", "n"))):
        async with quiet(log, store_url, engine, engine_of(corpus=SAYS_IT)) as client:
            await answers(client)
    async with dropping.listening() as address, quiet(log, store_url, addresses=[address]) as client:
        assert all(b"error" in body for body in await answers(client, timeout=None))
    assert any("CUDA error" in line for line in log.lines)


async def test_clients_that_leave_or_take_nothing(store_url: str, log: Log) -> None:
    silent = SilentEngine()
    async with quiet(log, store_url, silent) as client:
        leaving = client.call("POST", CHAT)
        leaving.put(orjson.dumps({"model": MODEL, "messages": ASKED, "stream": True}))
        await silent.asked.wait()
        leaving.incoming.put_nowait({"type": "http.disconnect"})
        await until(lambda: leaving.task is not None and leaving.task.done())
        # And one that waits for longer than it may.
        key = (b"authorization", b"Bearer " + client.key.encode())
        body = {"model": MODEL, "messages": ASKED}
        assert (await client.request("POST", CHAT, body, [key, (b"x-request-timeout", b"1")])).status == 504


def breaking(*parts: bytes) -> Any:
    async def behave(caller: Caller, heard: Heard) -> bool:
        for part in parts:
            await caller.say(part)
        return False

    return behave


SAID = EVENT % MARK.encode()
UPSTREAMS: Sequence[Any] = (
    plain(ANSWER.replace(b"hello", MARK.encode())),
    streamed(SAID, END),
    *(plain(ECHO, f"{status} No") for status in (400, 401, 404, 413, 422, 429, 500, 503)),
    *(plain(b"<b>%b</b>" % MARK.encode(), f"{status} No", kind="text/html") for status in (200, 400, 418, 500, 503)),
    plain(orjson.dumps({"error": MARK}), "500 No"),
    plain(orjson.dumps({"detail": [{"msg": MARK}]}), "422 No"),
    plain(ECHO),
    plain(b'{"choices": [{"%b' % MARK.encode()),
    plain(MARK.encode()),
    plain(b'["%b"]' % MARK.encode()),
    streamed(SAID, b"data: " + ECHO + b"\n\n", END),
    streamed(b"data: " + ECHO + b"\n\n"),
    streamed(b'data: {"usage": %b}\n\n' % MARK.encode(), END),
    streamed(SAID),
    streamed(b": %b\n\n" % MARK.encode(), b"%b\n\n" % MARK.encode()),
    breaking(STREAM, chunk(SAID)),
    breaking(STREAM, chunk(SAID), MARK.encode() + b"\r\n"),
    breaking(STREAM, chunk(SAID + SAID[:40]), LAST),
    breaking(plain(ANSWER.replace(b"hello", MARK.encode()))[:-30]),
    breaking(f"{MARK} 200 OK\r\n\r\n".encode()),
    breaking(f"HTTP/1.1 200 {MARK}\r\n{MARK}\r\n\r\n".encode()),
    breaking(b""),
)


@pytest.mark.parametrize("falls_back", [False, True])
async def test_upstreams_that_repeat_what_they_were_asked(store_url: str, log: Log, falls_back: bool) -> None:
    async with contextlib.AsyncExitStack() as stack:
        found = [await stack.enter_async_context(upstream()) for _ in UPSTREAMS]
        fields: dict[str, Any] = {"fallbacks": {"models": [f"{HOSTED}0"]}} if falls_back else {}
        models = [hosted(one.url, f"{HOSTED}{at}", **(fields if at else {})) for at, one in enumerate(found)]
        client = await stack.enter_async_context(quiet(log, store_url, more_models=models))
        for one, behaves in zip(found, UPSTREAMS, strict=True):
            one.behaves = behaves
        for model in models:
            for path, asked in ((CHAT, {"messages": ASKED}), (COMPLETIONS, {"prompt": MARK})):
                for stream in (False, True):
                    await client.request("POST", path, {"model": model["name"], "stream": stream, **asked})
        assert all(one.heard for one in found)
    assert sum("status 500" in line for line in log.lines) >= 4


async def test_a_replica_of_another_make_that_repeats_it(store_url: str, log: Log) -> None:
    async with serving(RefusesWith(Failure("unsupported_parameter", MARK, "n"))) as (_, address):
        async with quiet(log, store_url, addresses=[address]) as client:
            assert all(MARK.encode() not in body for body in await answers(client))
        assert asyncio.current_task() is not None
