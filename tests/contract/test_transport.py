"""What every `Transport` keeps to. Each one says how its streams are made; the rest is the same for all."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from protos.errors import ClientGone, DeadlineExceeded, PenstockError, ReplicaUnavailable
from protos.types import FinishReason
from replicas.engine import Engine
from routing.contracts.transport import Event, Transport
from routing.transports.replica_connection import Listener, TransportContext
from routing.transports.session_transport import SessionConnection
from tests.fake_triton import FakeTriton, metrics_text, serving_metrics
from tests.fakes import DiesAfter, SilentEngine
from tests.harness import answers_of, drained, engine_of, gated_engine, serving, spec_of, submit_of
from tests.loops import until
from tests.stock_server import OwnNames, StockServer, trtllm_at
from tests.triton_transports import connected

TRITON = "a model behind Triton"

#: A transport that is connected to the engine, and a function that takes the replica away.
Connect = Callable[[Engine], contextlib.AbstractAsyncContextManager[tuple[Transport, Callable[[], Awaitable[None]]]]]


@contextlib.asynccontextmanager
async def _mux(
    engine: Engine, address: str, channels: int
) -> AsyncIterator[tuple[Transport, Callable[[], Awaitable[None]]]]:
    async with serving(engine, address) as (server, bound):
        spec = spec_of(bound, channels=channels, streams_per_channel=3)
        ready = asyncio.Event()
        connection = SessionConnection(spec, TransportContext("test", Listener(ready.set)))
        connection.start()
        try:
            await ready.wait()
            yield connection, server.close
        finally:
            await connection.aclose()


@contextlib.asynccontextmanager
async def _stock(engine: Engine) -> AsyncIterator[tuple[Transport, Callable[[], Awaitable[None]]]]:
    async with StockServer(engine).listening() as (address, server), trtllm_at(address) as connection:
        yield connection, lambda: server.stop(None)


@contextlib.asynccontextmanager
async def _our_stock(engine: Engine) -> AsyncIterator[tuple[Transport, Callable[[], Awaitable[None]]]]:
    async with serving(OwnNames(engine)) as (server, address), trtllm_at(address) as connection:
        yield connection, server.close


@contextlib.asynccontextmanager
async def _triton(engine: Engine) -> AsyncIterator[tuple[Transport, Callable[[], Awaitable[None]]]]:
    fake = FakeTriton(engine)
    # How many tokens a cached block has only the metrics say.
    async with (
        serving_metrics([metrics_text(scheduled=0, tokens_per=32)]) as url,
        connected(fake, metrics_url=url) as transport,
    ):
        yield transport, fake.close


@pytest.fixture(
    params=[
        "mux over tcp",
        "mux over a unix socket",
        "mux over several channels",
        "a stock TensorRT-LLM server",
        "our replica as a stock TensorRT-LLM server",
        TRITON,
    ]
)
def connect(request: pytest.FixtureRequest, state_dir: Path) -> Connect:
    if request.param == "a stock TensorRT-LLM server":
        return _stock
    if request.param == "our replica as a stock TensorRT-LLM server":
        return _our_stock
    if request.param == TRITON:
        return _triton
    if request.param == "mux over a unix socket":
        return lambda engine: _mux(engine, f"unix:{state_dir}/r.sock", 1)
    channels = 4 if request.param == "mux over several channels" else 1
    return lambda engine: _mux(engine, "127.0.0.1:0", channels)


@pytest.fixture
def most(request: pytest.FixtureRequest) -> int:
    """The most answers to one prompt that the transport's engine gives."""
    return 1 if request.node.callspec.params["connect"] == TRITON else 8


async def test_a_stream_carries_all_tokens_in_order_and_one_finish_a_sequence(connect: Connect, most: int) -> None:
    requests = [submit_of(40 + i, prompt=[i], n=min(most, 1 + i % 3), delta_interval=i % 4) for i in range(12)]

    expected = iter(await answers_of(*requests))
    async with connect(engine_of()) as (transport, _):
        streams = [transport.open(request) for request in requests]
        for stream, request in zip(streams, requests, strict=True):
            tokens, finishes = await drained(stream, request.sampling.n)
            assert tokens == [next(expected) for _ in range(request.sampling.n)]
            for finish, sequence in zip(finishes, tokens, strict=True):
                assert finish.reason is FinishReason.LENGTH
                assert (finish.prompt_tokens, finish.completion_tokens) == (1, len(sequence))
            assert not stream.failed
            stream.close()


@pytest.mark.parametrize("fields", [{"n": 8}, {"n": 3, "logprobs": 20}])
async def test_whole_answers_that_come_at_once_are_not_a_slow_reader(
    connect: Connect, most: int, fields: dict[str, Any]
) -> None:
    if most < fields["n"]:
        pytest.skip("it gives one answer at a time, step by step")

    # Nobody can read between the answers of one step.
    async with connect(engine_of()) as (transport, _):
        stream = transport.open(submit_of(1500, delta_interval=0, **fields))
        tokens, _ = await drained(stream, fields["n"])
        assert [len(run) for run in tokens] == [1500] * fields["n"]
        stream.close()


async def test_logprobs_stay_with_their_tokens(connect: Connect, most: int) -> None:
    if most == 1:
        pytest.skip("it has no logprobs")

    async with connect(engine_of()) as (transport, _):
        stream = transport.open(submit_of(30, logprobs=2))
        events: list[Event] = []
        while not (events and events[-1][3]):
            events += await stream.receive()
        entries = 0
        for _, tokens, logprobs, _ in events:
            if tokens:
                assert logprobs is not None
                assert [entry.top[0][0] for entry in logprobs] == list(tokens)
                entries += len(logprobs)
        assert entries == 30
        stream.close()


async def test_cached_tokens_are_known_from_the_first_tokens_on(connect: Connect) -> None:
    async with connect(engine_of()) as (transport, _):
        found = []
        for _ in range(2):
            stream = transport.open(submit_of(50, prompt=range(100)))
            await stream.receive()
            found.append(stream.cached_tokens)
            stream.close()
        assert found[0] == 0
        assert 0 < found[1] < 100


async def test_receive_gives_everything_that_waits(connect: Connect) -> None:
    engine, gate = gated_engine()
    async with connect(engine) as (transport, _):
        stream = transport.open(submit_of(10))
        reader = asyncio.create_task(drained(stream))
        gate.open()
        tokens, _ = await reader
        assert len(tokens[0]) == 10
        stream.close()


@pytest.mark.parametrize("closings", [1, 3])
async def test_close_stops_the_engine(connect: Connect, most: int, closings: int) -> None:
    engine = SilentEngine()
    async with connect(engine) as (transport, _):
        kept, closed = (
            transport.open(submit_of(name="kept")),
            transport.open(submit_of(name="closed", n=min(most, 2))),
        )
        await until(lambda: len(engine.submitted) == 2)
        for _ in range(closings):
            closed.close()
        await until(lambda: engine.cancelled)
        assert [engine.submitted[handle].request_id for handle in engine.cancelled] == ["closed"]
        assert not kept.failed
        kept.close()


async def test_close_before_the_request_left_reaches_no_engine_or_stops_it(connect: Connect) -> None:
    engine = SilentEngine()
    async with connect(engine) as (transport, _):
        transport.open(submit_of(name="never mind")).close()
        last = transport.open(submit_of(name="last"))
        await until(lambda: any(request.request_id == "last" for request in engine.submitted.values()))
        open_now = {h for h, r in engine.submitted.items() if r.request_id == "never mind"}
        assert open_now <= set(engine.cancelled)
        last.close()


@pytest.mark.parametrize("error", [ClientGone("left"), DeadlineExceeded("late")])
async def test_fail_stops_the_engine_and_is_what_receive_raises(connect: Connect, error: PenstockError) -> None:
    engine = SilentEngine()
    async with connect(engine) as (transport, _):
        stream = transport.open(submit_of())
        await until(lambda: engine.submitted)
        reader = asyncio.create_task(stream.receive())
        await asyncio.sleep(0)
        stream.fail(error)
        stream.fail(PenstockError("too late"))
        assert stream.failed
        with pytest.raises(type(error)):
            await reader
        with pytest.raises(type(error)):
            await stream.receive()
        await until(lambda: engine.cancelled == [1])
        stream.close()


async def test_a_lost_replica_fails_every_stream_and_refuses_new_ones(connect: Connect) -> None:
    async with connect(SilentEngine()) as (transport, take_away):
        streams = [transport.open(submit_of(name=f"r{i}")) for i in range(5)]
        readers = [asyncio.create_task(stream.receive()) for stream in streams]
        await take_away()
        for reader, stream in zip(readers, streams, strict=True):
            with pytest.raises(ReplicaUnavailable):
                await reader
            assert stream.failed
            stream.close()

        def refused() -> bool:
            try:
                transport.open(submit_of()).close()
            except ReplicaUnavailable:
                return True
            return False

        await until(refused)


async def test_a_lost_engine_ends_every_stream(connect: Connect, most: int) -> None:
    n = min(most, 2)

    async with connect(DiesAfter(2)) as (transport, _):
        streams = [transport.open(submit_of(name=f"r{i}", n=n)) for i in range(4)]
        for stream in streams:
            _, finishes = await drained(stream, n)
            for finish in finishes:
                assert finish.failure is not None
                assert finish.failure.code in ("engine_error", "draining")
            stream.close()
