"""What the watchdog does once a second: comments on quiet streams."""

import asyncio
import weakref
from typing import Any

import pytest

from gateway.api.server.http_exchange import EVENT_STREAM, HttpExchange
from gateway.api.server.request_watchdog import RequestWatchdog
from observability.tracing.sampling import HeadSampler
from tests.loops import until


class Line:
    """What a client would see of a stream."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        #: Status and headers of each answer that began, without those of every stream.
        self.heads: list[tuple[int, dict[bytes, bytes]]] = []
        self.stuck = asyncio.Event()
        self.stuck.set()

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])
            for name in (b"cache-control", b"x-accel-buffering", b"x-request-id"):
                headers.pop(name, None)
            self.heads.append((message["status"], headers))
        self.parts.append(message.get("body", b""))
        await self.stuck.wait()

    def exchange(self) -> HttpExchange:
        scope = {"type": "http", "method": "POST", "path": "/x", "headers": []}
        return HttpExchange(scope, asyncio.Queue().get, self.send, HeadSampler(None))


COMMENT = b": keep-alive\n\n"


async def test_a_quiet_stream_gets_comments() -> None:
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


async def test_no_comment_within_an_event_nor_for_a_client_that_takes_nothing() -> None:
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


async def test_a_body_that_is_no_stream_gets_none() -> None:
    line = Line()
    exchange = line.exchange()
    await exchange.start_body(None)
    await exchange.write(b"{")
    for now in (100.0, 200.0):
        exchange.keep_alive(now, 15)
        await asyncio.sleep(0)
    assert line.parts[1:] == [b"{"]


async def test_the_watchdog_looks_for_quiet_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.api.server.request_watchdog.ROUND_SECONDS", 0.0)
    monkeypatch.setattr("gateway.api.server.request_watchdog.CHECK_SECONDS", 0.001)

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


def test_an_ended_request_is_held_by_nothing() -> None:
    watchdog, exchange = RequestWatchdog(), Line().exchange()
    left = weakref.ref(exchange)
    watchdog.enter(exchange)
    watchdog.leave(exchange)
    del exchange
    assert left() is None


async def test_a_stream_that_waits_at_zero_begins_with_its_first_comment() -> None:
    line = Line()
    exchange = line.exchange()
    exchange.record.stream = exchange.handle.waits_at_zero = True
    exchange.fixed_headers.append((b"x-fixed", b"1"))
    for now in (100.0, 101.0, 114.0):
        exchange.keep_alive(now, 15)
        await asyncio.sleep(0)
    assert (line.parts, exchange.started) == ([], False), "the status is open until a comment is due"
    for now in (115.0, 130.0):
        exchange.keep_alive(now, 15)
        await asyncio.sleep(0)
    assert exchange.started
    assert line.parts == [b"", COMMENT, COMMENT]
    assert line.heads == [(200, {b"content-type": EVENT_STREAM, b"x-fixed": b"1"})]
    exchange.handle.waits_at_zero = False
    await exchange.start_stream()
    await exchange.write(b"data: 1\n\n")
    await exchange.end(b"data: [DONE]\n\n")
    assert line.parts[3:] == [b"data: 1\n\n", b"data: [DONE]\n\n"]
    assert len(line.heads) == 1


async def test_a_stream_that_got_its_replica_in_time_has_its_status_still() -> None:
    line = Line()
    exchange = line.exchange()
    exchange.record.stream = exchange.handle.waits_at_zero = True
    exchange.keep_alive(100.0, 15)
    exchange.keep_alive(115.0, 15)
    exchange.handle.waits_at_zero = False
    # The comment was due, and is not sent any more.
    await asyncio.sleep(0)
    exchange.keep_alive(130.0, 15)
    exchange.keep_alive(145.0, 15)
    await asyncio.sleep(0)
    assert (line.parts, exchange.started) == ([], False)
    await exchange.respond(503, b"{}")
    assert [status for status, _ in line.heads] == [503]


async def test_the_answer_may_come_while_the_first_comment_is_sent() -> None:
    line = Line()
    exchange = line.exchange()
    exchange.record.stream = exchange.handle.waits_at_zero = True
    line.stuck.clear()
    exchange.keep_alive(100.0, 15)
    exchange.keep_alive(115.0, 15)
    await asyncio.sleep(0)
    exchange.handle.waits_at_zero = False
    begins = asyncio.create_task(exchange.start_stream())
    await begins
    line.stuck.set()
    await exchange.write(b"data: 1\n\n")
    await asyncio.sleep(0)
    assert len(line.heads) == 1
    assert b"data: 1\n\n" in line.parts


async def test_no_first_comment_within_an_event_that_came_while_the_answer_began() -> None:
    line = Line()
    exchange = line.exchange()
    exchange.record.stream = exchange.handle.waits_at_zero = True
    line.stuck.clear()
    exchange.keep_alive(100.0, 15)
    exchange.keep_alive(115.0, 15)
    await asyncio.sleep(0)
    exchange.handle.waits_at_zero = False
    await exchange.start_stream()
    part = asyncio.ensure_future(exchange.write(b"data: {"))
    await asyncio.sleep(0)
    line.stuck.set()
    await part
    assert exchange._comment is not None
    await exchange._comment
    await exchange.end(b"}\n\n")
    assert [one for one in line.parts if one] == [b"data: {", b"}\n\n"]


async def test_an_answer_that_is_no_stream_waits_at_zero_without_a_byte() -> None:
    line = Line()
    exchange = line.exchange()
    exchange.handle.waits_at_zero = True
    for now in (100.0, 115.0, 130.0):
        exchange.keep_alive(now, 15)
        await asyncio.sleep(0)
    assert line.parts == []
