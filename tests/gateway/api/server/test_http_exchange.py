import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

import gateway.api.server.http_exchange
from gateway.api.server.error_form import error_headers
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.request_watchdog import RequestWatchdog
from observability.tracing.sampling import HeadSampler
from protos.errors import (
    AuthenticationFailed,
    BodyTooLarge,
    InvalidRequest,
    Overloaded,
    PenstockError,
    RequestTimeout,
    SlowClient,
)
from tests.loops import until


class Wire:
    """An exchange's two ends, in the hands of the test."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[Any] = asyncio.Queue()
        self.sent: list[Any] = []

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    def exchange(self, *headers: tuple[bytes, bytes]) -> HttpExchange:
        scope = {"type": "http", "method": "POST", "path": "/x", "headers": list(headers)}
        return HttpExchange(scope, self.incoming.get, self.send, HeadSampler(None))

    def put(self, body: bytes, *, more: bool = True) -> None:
        self.incoming.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def leave(self) -> None:
        self.incoming.put_nowait({"type": "http.disconnect"})


@contextlib.asynccontextmanager
async def wired() -> AsyncIterator[Wire]:
    yield Wire()


async def test_a_body_in_parts_is_put_together() -> None:
    async with wired() as wire:
        for part in (b"a", b"", b"bc"):
            wire.put(part)
        wire.put(b"", more=False)
        assert await wire.exchange().body(3) == b"abc"
        wire.put(b"ab")
        wire.put(b"c")
        # The announced length is there: nothing more is waited for.
        assert await wire.exchange((b"content-length", b"3")).body(3) == b"abc"


@pytest.mark.parametrize("headers", [(), ((b"content-length", b"2"),), ((b"content-length", b"nonsense"),)])
async def test_a_body_over_the_limit_is_refused_at_the_first_byte_too_many(
    headers: tuple[tuple[bytes, bytes], ...],
) -> None:
    async with wired() as wire:
        wire.put(b"abc")
        wire.put(b"de")
        wire.put(b"never read")
        with pytest.raises(BodyTooLarge):
            await wire.exchange(*headers).body(4)
        assert wire.incoming.qsize() == 1


@pytest.mark.parametrize("length", [b"5", b"9" * 20, b"9" * 5000])
async def test_an_announced_length_over_the_limit_is_refused_unread(length: bytes) -> None:
    async with wired() as wire:
        wire.put(b"abc")
        with pytest.raises(BodyTooLarge):
            await wire.exchange((b"content-length", length)).body(4)
        assert wire.incoming.qsize() == 1


LENGTH = (b"content-length", b"5")


async def test_the_rest_of_a_body_is_read_after_the_answer() -> None:
    """Else the connection would be reset, and the answer with it."""
    async with wired() as wire:
        for exchange, limit in ((wire.exchange(LENGTH), 4), (wire.exchange(), 1), (wire.exchange(), None)):
            for part in (b"ab", b"cd", b"e"):
                wire.put(part)
            wire.put(b"", more=False)
            with pytest.raises(BodyTooLarge):
                if limit is None:
                    async for _ in exchange.parts(1):
                        pass
                else:
                    await exchange.body(limit)
            await exchange.discard_rest()
            assert wire.incoming.empty()
        for limited in (False, True):
            unasked = wire.exchange((b"transfer-encoding", b"chunked"))
            if limited:
                unasked.limit(time.monotonic() + 100)
            wire.put(b"abc")
            wire.leave()
            await unasked.discard_rest()
            assert wire.incoming.empty(), "a client may leave meanwhile"


async def test_where_nothing_more_comes_nothing_is_waited_for() -> None:
    async with wired() as wire:
        whole = wire.exchange()
        wire.put(b"abcde", more=False)
        with pytest.raises(BodyTooLarge):
            await whole.body(4)
        await whole.discard_rest()
        await wire.exchange().discard_rest()
        await wire.exchange((b"content-length", b"0")).discard_rest()
        # A client that asks for leave to send its body sends none after an answer.
        await wire.exchange(LENGTH, (b"expect", b"100-continue")).discard_rest()
        read = wire.exchange(LENGTH)
        wire.put(b"abcde")
        assert await read.body(5) == b"abcde"
        await read.discard_rest()
        parts = wire.exchange(LENGTH)
        wire.put(b"abcde")
        assert [part async for part in parts.parts(5)] == [b"abcde"]
        await parts.discard_rest()


async def test_a_client_that_leaves_during_its_body() -> None:
    async with wired() as wire:
        wire.put(b"abc")
        wire.leave()
        # Granian says the same of a body whose chunks do not parse, and that client is there to read an answer.
        with pytest.raises(InvalidRequest):
            await wire.exchange().body(100)


async def test_what_is_watched_when_it_ends_is_watched_no_longer() -> None:
    """The watchdog looks at any moment, such as while an error is written that nobody has to watch for."""

    async with wired() as wire:
        exchange, watchdog = wire.exchange(), RequestWatchdog()
        watchdog.enter(exchange)
        exchange.deadline = time.monotonic() + 100
        exchange.unwatch()
        assert exchange.watch()
        await asyncio.sleep(0)
        watchdog.leave(exchange)


async def test_a_slow_body_is_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway.api.server.http_exchange, "BODY_SECONDS", 0.01)

    async with wired() as wire:
        caught: list[Exception] = []
        made: list[HttpExchange] = []

        async def read() -> None:
            made.append(wire.exchange())
            try:
                await made[0].body(100)
            except RequestTimeout as error:
                caught.append(error)
            # The cancellation that ended the wait has been used up.
            await asyncio.sleep(0)

        wire.put(b"abc")
        task = asyncio.create_task(read())
        await until(lambda: made)
        made[0].enforce_limits(time.monotonic() - 1)
        await asyncio.sleep(0)
        assert not task.done()

        def looked() -> bool:
            made[0].enforce_limits(time.monotonic())
            return bool(caught)

        await until(looked)
        await task


async def test_a_cancellation_from_outside_is_not_taken_for_a_slow_body() -> None:
    async with wired() as wire:

        async def read() -> None:
            await wire.exchange().body(100)

        task = asyncio.create_task(read())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_watched_client_that_leaves_fails_the_attempt() -> None:
    async with wired() as wire:
        exchange = wire.exchange()
        assert not exchange.watch()  # its body is still to come
        exchange.deadline = time.monotonic() + 100
        assert exchange.watch()
        wire.put(b"more", more=False)
        wire.leave()
        await until(lambda: exchange.handle.failed)
        exchange.unwatch()
        exchange.unwatch()


async def test_a_deadline_fails_the_attempt_and_then_the_task() -> None:
    async with wired() as wire:
        made: list[HttpExchange] = []

        now = time.monotonic()

        async def stuck() -> None:
            made.append(wire.exchange())
            made[0].limit(now + 10)
            await asyncio.Event().wait()

        task = asyncio.create_task(stuck())
        await until(lambda: made)
        exchange, failed = made[0], []
        for seconds in (9, 11):
            exchange.enforce_limits(now + seconds)
            failed.append(exchange.handle.failed)
        assert failed == [False, True]
        exchange.enforce_limits(now + 12)
        await asyncio.sleep(0)
        assert not task.done()
        exchange.enforce_limits(now + 11 + gateway.api.server.http_exchange.STUCK_SECONDS + 1)
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (PenstockError("x"), {b"x-should-retry": b"false"}),
        (SlowClient("x"), {}),
        (AuthenticationFailed("x"), {b"www-authenticate": b"Bearer"}),
        (
            Overloaded("x", retry_after=1.0),
            {b"retry-after": b"1", b"retry-after-ms": b"1000", b"x-should-retry": b"true"},
        ),
        (
            Overloaded("x", retry_after=0.01),
            {b"retry-after": b"1", b"retry-after-ms": b"10", b"x-should-retry": b"true"},
        ),
        (
            Overloaded("x", retry_after=2.6),
            {b"retry-after": b"3", b"retry-after-ms": b"2600", b"x-should-retry": b"true"},
        ),
    ],
)
def test_headers_of_errors(error: PenstockError, headers: dict[bytes, bytes]) -> None:
    assert dict(error_headers(error)) == headers


async def test_the_query_string_is_read_when_it_is_asked_for() -> None:
    async with wired() as wire:
        scope = {"type": "http", "method": "GET", "path": "/x", "headers": [], "query_string": b"a=1&b=x%20y&a=2&c="}
        exchange = HttpExchange(scope, wire.incoming.get, wire.send, HeadSampler(None))
        assert exchange.query == {"a": "2", "b": "x y", "c": ""}
        assert wire.exchange().query == {}
