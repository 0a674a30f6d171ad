"""What the intake takes from a request, in which order, and that nothing of it is left at the end."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.intake import IncomingRequest, Intake
from gateway.api.server.request_watchdog import RequestWatchdog
from gateway.api.server.run_handler import serve
from gateway.api.server.services import Services
from gateway.config import tenants
from gateway.config.listen import Listen
from gateway.models.adapter_models import AdapterModels
from gateway.models.catalog import ModelCatalog
from gateway.tenancy.limits.limiter import Rate, Room
from gateway.tenancy.tenants.caller import Caller
from observability.digests import Digests
from protos.errors import (
    AuthenticationFailed,
    BodyTooLarge,
    ClientGone,
    EndpointNotAllowed,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    PenstockError,
    PermissionDenied,
    ReplicaFailed,
)
from tests.gateway.api.server.test_http_exchange import Wire
from tests.gateway.inference.counted import Limits
from tests.loops import until
from tests.models import CALLER, model_of

MODEL = model_of()
RATE = Rate(Room(limit=10, remaining=9, reset_ms=500), Room())


class Keys:
    """An authenticator that counts whom it is asked about."""

    def __init__(self, caller: Caller | PenstockError = CALLER) -> None:
        self.asked: list[bytes | None] = []
        self._caller = caller

    async def authenticate(self, header: bytes | None) -> Caller:
        self.asked.append(header)
        if isinstance(self._caller, PenstockError):
            raise self._caller
        return self._caller


class RatedLimits(Limits):
    def last_rate(self, key_id: str) -> Rate | None:
        return RATE if key_id == CALLER.key.key_id else None


class Bench:
    """An intake and its parts."""

    def __init__(
        self,
        caller: Caller | PenstockError = CALLER,
        *,
        refusing: bool | None = None,
        digests: Digests | None = None,
        **listen: Any,
    ) -> None:
        self.watchdog = RequestWatchdog()
        #: What an exchange held right after the context.
        self.left: tuple[object, object] | None = None
        self.keys = Keys(caller)
        journal = None if refusing is None else SimpleNamespace(refusing=refusing)
        catalog = ModelCatalog({"m": MODEL}, {"alias": MODEL}, AdapterModels({}, ()))
        self.intake = Intake(
            Listen(**listen), self.watchdog, cast("Any", self.keys), RatedLimits(), catalog, digests, journal, 2
        )

    def open(self, exchange: HttpExchange) -> IncomingRequest:
        return self.intake.open(exchange, "chat")

    async def run(self, exchange: HttpExchange, work: Callable[[IncomingRequest], Any]) -> None:
        """As the application runs a handler that does this to the request."""
        ended: list[Any] = []

        async def handler(_: Services, exchange: HttpExchange) -> None:
            try:
                async with self.open(exchange) as incoming:
                    await work(incoming)
            finally:
                self.left = held(exchange)

        publisher = SimpleNamespace(ended=ended.append)
        services = cast("Services", SimpleNamespace(watchdog=self.watchdog, record_publisher=publisher))
        try:
            await serve(services, exchange, handler, named=True)
        finally:
            assert ended == [exchange.record]


def held(exchange: HttpExchange) -> tuple[object, object]:
    """What an exchange holds beyond itself: the task that watches its client, and the timer of its time limit."""
    return exchange._watcher, exchange._timer


async def test_a_request_is_identified_before_its_body_is_read() -> None:
    limited = replace(CALLER, key=msgspec.structs.replace(CALLER.key, limits=tenants.Limits(rpm=10)))
    bench, wire = Bench(limited), Wire()
    exchange = wire.exchange((b"authorization", b"Bearer k"))
    async with bench.open(exchange) as incoming:
        assert bench.watchdog.active == {exchange}
        assert bench.keys.asked == [b"Bearer k"]
        record = exchange.record
        assert (record.tenant, record.key_id, record.tier) == ("default", "key_0", CALLER.tier.name)
        assert record.arrived <= record.identified
        assert (b"x-ratelimit-remaining-requests", b"9") in exchange.caller_headers()
        wire.put(b"{}", more=False)
        assert await incoming.body() == b"{}"
        assert (record.request_bytes, record.request_hash) == (2, "")
        assert incoming.caller is limited


async def test_a_caller_without_limits_gets_no_rate_headers() -> None:
    bench, exchange = Bench(), Wire().exchange()
    async with bench.open(exchange):
        assert not exchange.caller_headers()


async def test_a_caller_that_is_known_needs_no_key() -> None:
    bench, exchange = Bench(AuthenticationFailed("who")), Wire().exchange()
    exchange.caller = CALLER
    async with bench.open(exchange) as incoming:
        assert incoming.caller is CALLER
    assert bench.keys.asked == []


async def test_the_body_is_hashed_where_the_journal_wants_it() -> None:
    digests = Digests(b"k" * 32)
    bench, wire = Bench(digests=digests), Wire()
    wire.put(b"{}", more=False)
    async with bench.open(wire.exchange()) as incoming:
        await incoming.body()
        assert incoming.exchange.record.request_hash == digests.of(b"{}")


async def test_beyond_max_in_flight_it_is_refused_and_nothing_is_left() -> None:
    bench, first, second = Bench(max_in_flight=1), Wire().exchange(), Wire()
    async with bench.open(first):
        refused = second.exchange()
        await bench.run(refused, lambda incoming: pytest.fail("it was let in"))
        assert second.sent[0]["status"] == Overloaded.status
        assert refused.record.code == Overloaded.code
        assert bench.watchdog.active == {first}
        assert len(bench.keys.asked) == 1, "nobody is asked who it is"
        with pytest.raises(Overloaded) as caught:
            bench.intake.admit(Wire().exchange())
        assert caught.value.retry_after == 1.0
    bench.watchdog.leave(first)
    async with bench.open(Wire().exchange()):
        pass


async def test_a_journal_that_takes_no_records_lets_no_request_begin() -> None:
    bench = Bench(refusing=True)
    with pytest.raises(Overloaded) as caught:
        async with bench.open(Wire().exchange()):
            pass
    assert caught.value.retry_after == 1.0
    assert (bench.watchdog.active, bench.keys.asked) == (set(), [])
    async with Bench(refusing=False).open(Wire().exchange()):
        pass


@pytest.mark.parametrize("error", [AuthenticationFailed("no"), EndpointNotAllowed("no")])
async def test_who_may_not_is_refused_before_the_body(error: PenstockError) -> None:
    if isinstance(error, EndpointNotAllowed):
        key = msgspec.structs.replace(CALLER.key, endpoints=("models",))
        bench = Bench(Caller(key, CALLER.tenant, CALLER.tier, CALLER.rank))
    else:
        bench = Bench(error)
    wire = Wire()
    wire.put(b"{}", more=False)
    exchange = wire.exchange()
    await bench.run(exchange, lambda incoming: pytest.fail("it was let in"))
    assert wire.sent[0]["status"] == error.status
    assert wire.incoming.qsize() == 1
    assert bench.watchdog.active == set()
    # Whom it is refused is known, if it is.
    assert exchange.record.tenant == ("default" if isinstance(error, EndpointNotAllowed) else "")


@pytest.mark.parametrize("value", [b"", b"0", b"-1", b"1m", b"nan", b"1e3"])
async def test_a_time_limit_that_is_none_is_refused_before_the_body_is_read(value: bytes) -> None:
    bench, wire = Bench(), Wire()
    wire.put(b"{}", more=False)
    exchange = wire.exchange((b"x-request-timeout", value))
    with pytest.raises(InvalidRequest) as caught:
        async with bench.open(exchange) as incoming:
            await incoming.body()
    assert caught.value.param == "x-request-timeout"
    assert wire.incoming.qsize() == 1
    assert (exchange.record.request_bytes, held(exchange)) == (0, (None, None))


async def test_a_body_beyond_the_limit_is_not_taken() -> None:
    bench, wire = Bench(max_body_bytes=1024), Wire()
    wire.put(b"x" * 1025, more=False)
    with pytest.raises(BodyTooLarge):
        async with bench.open(wire.exchange()) as incoming:
            await incoming.body()


async def test_only_a_name_of_ours_gets_into_the_record() -> None:
    others = msgspec.structs.replace(CALLER.key, models=("other-*",))
    for caller, name, error in (
        (CALLER, "nope", ModelNotFound),
        (Caller(others, CALLER.tenant, CALLER.tier, CALLER.rank), "m", PermissionDenied),
    ):
        exchange = Wire().exchange()
        with pytest.raises(error):
            async with Bench(caller).open(exchange) as incoming:
                incoming.model(name)
        record = exchange.record
        assert (record.model, record.asked_model, record.screened) == ("", "", 0.0)
    async with Bench().open(Wire().exchange()) as incoming:
        assert incoming.model("alias") is MODEL
        record = incoming.exchange.record
        assert (record.model, record.asked_model) == ("m", "m")
        assert record.screened >= record.identified


@pytest.mark.parametrize(
    ("limit", "header", "seconds"),
    [(600.0, None, 600.0), (600.0, b"30", 30.0), (5.0, b"30", 5.0), (9.0, b"500ms", 0.5)],
)
async def test_the_deadline_is_the_clients_within_ours(limit: float, header: bytes | None, seconds: float) -> None:
    bench, wire = Bench(request_timeout_seconds=limit), Wire()
    wire.put(b"{}", more=False)
    exchange = wire.exchange(*([] if header is None else [(b"x-request-timeout", header)]))
    async with bench.open(exchange) as incoming:
        await incoming.body()
        assert not exchange.watch(), "its time begins once the request is known to be one"
        before = time.monotonic()
        incoming.begin()
        assert before + seconds <= incoming.deadline <= time.monotonic() + seconds
        assert exchange.deadline == incoming.wait_until == incoming.deadline
        assert (exchange._timer is not None) == (header is not None)


async def test_it_waits_for_admission_no_longer_than_its_client_for_the_first_byte() -> None:
    for header, seconds in ((b"2.5", 2.5), (b"9999", None), (b"0", None), (b"nonsense", None), (b"nan", None)):
        bench, exchange = Bench(), Wire().exchange((b"x-stainless-read-timeout", header))
        async with bench.open(exchange) as incoming:
            incoming.begin()
            wanted = incoming.deadline if seconds is None else exchange.record.arrived + seconds
            assert incoming.wait_until == wanted
            assert exchange.deadline == incoming.deadline


@pytest.mark.parametrize("ending", ["success", "error", "defect", "cancelled"])
async def test_the_watch_and_the_timer_end_with_the_request(ending: str) -> None:
    bench, wire = Bench(), Wire()
    wire.put(b"{}", more=False)
    exchange = wire.exchange((b"x-request-timeout", b"30"))
    within: list[tuple[object, object]] = []
    running = asyncio.Event()

    async def work(incoming: IncomingRequest) -> None:
        await incoming.body()
        incoming.begin()
        assert exchange.watch()
        within.append(held(exchange))
        running.set()
        if ending == "error":
            raise ReplicaFailed("broken")
        if ending == "defect":
            raise ValueError("a defect")
        if ending == "cancelled":
            await asyncio.Event().wait()
        await exchange.respond(200, b"{}")

    task = asyncio.ensure_future(bench.run(exchange, work))
    await running.wait()
    if ending == "cancelled":
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        await task
        status = {"success": 200, "error": ReplicaFailed.status, "defect": 500}[ending]
        assert wire.sent[0]["status"] == status
    ((watcher, timer),) = within
    assert isinstance(watcher, asyncio.Task)
    assert isinstance(timer, asyncio.TimerHandle)
    await until(watcher.cancelled)
    assert timer.cancelled()
    assert bench.left == (None, None)
    assert bench.watchdog.active == set()
    assert not exchange.handle.failed


async def test_a_client_that_leaves_fails_the_handle_while_it_is_watched() -> None:
    bench, wire = Bench(), Wire()
    exchange = wire.exchange()
    async with bench.open(exchange) as incoming:
        incoming.begin()
        exchange.watch()
        wire.leave()
        await until(lambda: exchange.handle.failed)
        with pytest.raises(ClientGone):
            exchange.handle.check()


async def test_requests_without_a_body_are_admitted_and_identified_too() -> None:
    bench, exchange = Bench(max_in_flight=1), Wire().exchange()
    assert await bench.intake.caller(exchange, "models") is CALLER
    assert bench.watchdog.active == {exchange}
    with pytest.raises(Overloaded):
        await bench.intake.caller(Wire().exchange(), "models")


async def test_a_request_may_stand_behind_all_others() -> None:
    bench, found = Bench(), []
    for value in (b"true", b"true", b"no"):
        async with bench.open(Wire().exchange((b"x-penstock-background", value))) as incoming:
            found.append(incoming.caller)
            assert incoming.exchange.record.background == incoming.caller.background
    first, second, other = found
    assert first is second
    assert (first.background, first.rank, first.queue_name) == (True, 2, "default/background")
    assert other is CALLER
