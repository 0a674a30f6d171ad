"""Whoever a request is sent to hears in which trace it stands, if it stands in one, over every wire."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from protos import codec
from protos import replica_pb2 as pb
from protos.types import Submit
from routing.contracts.transport import Leg, Transport
from routing.dispatch.migration import continuation
from routing.transports.replica_connection import Listener, TransportContext
from routing.transports.session_transport import SessionConnection
from tests import routing_transports, triton_transports
from tests.fake_triton import FakeTriton
from tests.fakes import SilentEngine
from tests.harness import engine_of, serving, spec_of, submit_of
from tests.loops import until
from tests.stock_server import OwnNames, trtllm_at
from tests.upstreams import END, EVENT, streamed, upstream

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
STATE = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"

Open = Callable[[SilentEngine], contextlib.AbstractAsyncContextManager[Transport]]


@contextlib.asynccontextmanager
async def over_a_session(engine: SilentEngine) -> AsyncIterator[Transport]:
    ready = asyncio.Event()
    async with serving(engine) as (_, address):
        connection = SessionConnection(spec_of(address), TransportContext("test", Listener(ready.set)))
        connection.start()
        try:
            await ready.wait()
            yield connection
        finally:
            await connection.aclose()


@contextlib.asynccontextmanager
async def over_stock_grpc(engine: SilentEngine) -> AsyncIterator[Transport]:
    async with serving(OwnNames(engine)) as (_, address), trtllm_at(address) as connection:
        yield connection


async def received(connect: Open, *traces: str) -> list[str]:
    """What the engine hears of each."""
    engine = SilentEngine()
    async with connect(engine) as transport:
        streams: list[Leg] = []
        for trace in traces:
            streams.append(transport.open(submit_of(name=f"r{len(streams)}", trace=trace)))
        await until(lambda: len(engine.submitted) == len(traces))
        for stream in streams:
            stream.close()
    return [submit.trace for submit in engine.submitted.values()]


@pytest.mark.parametrize("connect", [over_a_session, over_stock_grpc])
async def test_an_engine_behind_a_replica_server(connect: Open) -> None:
    traces = ["", PARENT, f"{PARENT} {STATE}", ""]
    assert await received(connect, *traces) == traces


async def test_what_is_no_trace_is_not_passed_on() -> None:
    assert await received(over_stock_grpc, "ff" + PARENT[2:], f"{PARENT} =", PARENT[:-2] + "00") == ["", PARENT, ""]


async def test_an_upstream_gets_headers() -> None:
    async with upstream() as fake, routing_transports.connected(fake) as transport:
        fake.behaves = streamed(EVENT % b"hi", END)
        for trace in (f"{PARENT} {STATE}", PARENT, ""):
            client = await transport.ask(trace=trace).begun()
            await client.read()
        both, alone, none = (heard.headers for heard in fake.heard)
        assert (both["traceparent"], both["tracestate"]) == (PARENT, STATE)
        assert alone["traceparent"] == PARENT
        assert "tracestate" not in alone
        assert "traceparent" not in none


async def test_triton_gets_metadata() -> None:
    fake = FakeTriton(engine_of())
    async with triton_transports.connected(fake) as transport:
        await until(lambda: transport.connected)
        fake.metadata.clear()
        streams = [transport.open(submit_of(name=trace[:2], trace=trace)) for trace in ("", f"{PARENT} {STATE}")]
        await until(lambda: len(fake.metadata) == len(streams))
        for stream in streams:
            stream.close()
        told = [(each.get("traceparent"), each.get("tracestate")) for each in fake.metadata]
        assert sorted(told, key=str) == [(PARENT, STATE), (None, None)]


def wire(submit: Submit) -> bytes:
    return codec.encode_up([(1, submit)], (), 0)


def test_a_session_carries_nothing_for_what_is_not_traced() -> None:
    plain, traced = submit_of(), submit_of(trace=PARENT)
    assert len(wire(traced)) == len(wire(plain)) + len(PARENT) + 2
    up = pb.Up.FromString(wire(plain))
    assert "trace" not in [field.name for field, _ in up.submits[0].ListFields()]
    ((_, submit),) = codec.decode_up(wire(plain)).submits
    assert submit.trace == ""


def test_what_goes_on_elsewhere_stays_in_its_trace() -> None:
    assert continuation(submit_of(trace=PARENT), 0, [5, 6]).trace == PARENT
