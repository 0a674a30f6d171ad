"""Requests of batches: on the path of any client's, with their record kept back until they count."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from gateway.api.server.api_route import ApiRoute
from gateway.api.server.error_form import OPENAI_ERRORS
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.internal_requests import InternalRequests
from gateway.api.server.request_watchdog import RequestWatchdog
from gateway.api.server.services import Services
from gateway.jobs.batches.reply import PATHS
from gateway.server.app import ROUTES
from observability.record import RequestRecord
from observability.tracing.sampling import HeadSampler
from protos.errors import (
    ClientError,
    ClientGone,
    Overloaded,
    PenstockError,
    QuotaExceeded,
    RateLimited,
    ReplicaUnavailable,
)
from tests.asgi import CHAT, HELLO, gateway_of
from tests.fakes import SilentEngine
from tests.harness import MODEL, engine_of
from tests.loops import until
from tests.models import CALLER

BODY = orjson.dumps({"model": MODEL, "messages": HELLO, "max_tokens": 4})


class Bench:
    """A sender whose only endpoint answers as the test says."""

    def __init__(self, answers: Callable[[HttpExchange], Awaitable[None]]) -> None:
        self.watchdog = RequestWatchdog()
        self.ended: list[RequestRecord] = []

        async def handle(services: Services, exchange: HttpExchange) -> None:
            assert exchange.caller is CALLER
            self.watchdog.enter(exchange)
            await answers(exchange)

        publisher = SimpleNamespace(ended=self.ended.append)
        services: Any = SimpleNamespace(watchdog=self.watchdog, record_publisher=publisher, sampler=HeadSampler(None))
        routes = [ApiRoute("POST", CHAT, handle, "chat"), ApiRoute("GET", CHAT, handle), ApiRoute("POST", "/x", handle)]
        self.sender = InternalRequests(lambda: cast("Services", services), routes)


def fails_with(error: PenstockError) -> Bench:
    async def fail(exchange: HttpExchange) -> None:
        raise error

    return Bench(fail)


async def echo(exchange: HttpExchange) -> None:
    await exchange.respond(200, await exchange.body(1000))


async def test_a_request_is_answered_and_nobody_is_told_before_it_counts() -> None:
    bench = Bench(echo)
    request = bench.sender.request(CALLER, CHAT, b"{}")
    assert (request.record.endpoint, request.record.code) == ("chat", "")
    reply = await request.send()
    assert (reply.status, reply.body, reply.retryable, reply.good) == (200, b"{}", False, True)
    assert reply.record is request.record
    assert reply.request_id == reply.record.id
    assert (bench.ended, bench.watchdog.active) == ([], set())
    bench.sender.ended(reply.record)
    assert bench.ended == [reply.record]


@pytest.mark.parametrize("path", ["/x", "/v1/files", "/v1/completions", CHAT + "/", ""])
async def test_a_path_that_is_not_for_batches_or_not_served_is_refused(path: str) -> None:
    with pytest.raises(ClientError):
        Bench(echo).sender.request(CALLER, path, b"{}")


def test_every_path_for_batches_is_served() -> None:
    routes = [route.path for route in ROUTES if route.method == "POST"]
    assert all(routes.count(path) == 1 for path in PATHS)
    sender = InternalRequests(lambda: cast("Services", None), ROUTES)
    assert set(sender._routes) == set(PATHS)


@pytest.mark.parametrize(
    ("error", "again", "wait", "no_room"),
    [
        (RateLimited("slowly", retry_after=2.5), True, 2.5, True),
        (Overloaded("full", retry_after=1.0), True, 1.0, True),
        (ReplicaUnavailable("away", retry_after=3.0), True, 3.0, True),
        # A client is told not to try again; a batch has until its end.
        (QuotaExceeded("spent"), True, 60.0, True),
        (ClientError("wrong"), False, 0.0, False),
    ],
)
async def test_a_refusal_says_when_another_try_may_help(
    error: PenstockError, again: bool, wait: float, no_room: bool
) -> None:
    bench = fails_with(error)
    reply = await bench.sender.request(CALLER, CHAT, b"{}").send()
    assert (reply.status, reply.body) == (error.status, OPENAI_ERRORS.body(error))
    assert (reply.retryable, reply.retry_after, reply.no_room, reply.good) == (again, wait, no_room, False)
    assert reply.record.code == (error.code or "")
    assert (bench.ended, bench.watchdog.active) == ([], set())


async def test_a_defect_is_an_answer_too(caplog: pytest.LogCaptureFixture) -> None:
    async def break_(exchange: HttpExchange) -> None:
        raise ValueError("a defect")

    reply = await Bench(break_).sender.request(CALLER, CHAT, b"{}").send()
    assert reply.status == 500
    assert b"a defect" not in reply.body
    assert "a defect" in caplog.text


async def test_a_cancellation_is_raised_and_leaves_nothing() -> None:
    running = asyncio.Event()

    async def wait(exchange: HttpExchange) -> None:
        running.set()
        await asyncio.Event().wait()

    bench = Bench(wait)
    request = bench.sender.request(CALLER, CHAT, b"{}")
    task = asyncio.ensure_future(request.send())
    await running.wait()
    assert len(bench.watchdog.active) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (bench.watchdog.active, bench.ended, request.record.code) == (set(), [], ClientGone.code)


def test_a_request_that_is_never_made_is_refused_as_a_client_would_be() -> None:
    sender = Bench(echo).sender
    error = Overloaded("full", retry_after=7.0)
    reply = sender.refused(error)
    assert (reply.status, reply.body, reply.retryable, reply.retry_after) == (
        error.status,
        OPENAI_ERRORS.body(error),
        True,
        7.0,
    )
    assert reply.request_id.startswith("req_")
    assert reply.request_id == reply.record.id != sender.refused(error).request_id
    assert reply.record.endpoint == "", "it is no request of anybody's"


async def test_it_takes_the_path_of_any_request(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        sender = InternalRequests(lambda: client.gateway.services, ROUTES)
        caller = await client.gateway.authenticator.authenticate(b"Bearer " + client.key.encode())
        reply = await sender.request(caller, CHAT, BODY).send()
        assert reply.status == 200, reply.body
        assert orjson.loads(reply.body)["usage"]["completion_tokens"] == reply.record.completion_tokens == 4
        assert reply.record.tenant == caller.tenant.name
        bad = await sender.request(caller, CHAT, b"{").send()
        assert (bad.status, bad.retryable) == (400, False)
        assert client.active == 0


async def test_a_cancelled_one_frees_the_engine(store_url: str) -> None:
    engine = SilentEngine()
    async with gateway_of(store_url, engine) as client:
        sender = InternalRequests(lambda: client.gateway.services, ROUTES)
        caller = await client.gateway.authenticator.authenticate(b"Bearer " + client.key.encode())
        task = asyncio.ensure_future(sender.request(caller, CHAT, BODY).send())
        await until(lambda: any(request.request_id.startswith("req_") for request in engine.submitted.values()))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: engine.cancelled)
        assert client.active == 0
