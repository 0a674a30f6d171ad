"""The transport to a stock TensorRT-LLM server: what it asks for, and what becomes of it where things go wrong."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc.aio
import pytest
from smg_grpc_proto.generated import trtllm_service_pb2 as pb

from protos.errors import ReplicaUnavailable
from protos.features import Feature
from protos.stock import stock_codec
from protos.types import Adapter, Finish, Handoff, Shape
from routing.health.replica_status import State
from routing.transports.replica_connection import TransportContext
from routing.transports.trtllm_grpc import TrtllmConnection
from tests.fakes import INFO, DropsStream, SilentEngine
from tests.harness import drained, engine_of, gated_engine, spec_of, submit_of
from tests.loops import until
from tests.protos.stock.test_stock_codec import chunk, complete
from tests.stock_server import StockServer, trtllm_at

#: What a raw server does with a Generate call.
Behaviour = Callable[[Any], Awaitable[None]]


class RawServer:
    """A server of the service whose answers are bytes of the test's choice; `ended` calls are over."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.calls = self.ended = 0
        self._behaviour = behaviour

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        unary: Any = grpc.unary_unary_rpc_method_handler
        stream: Any = grpc.unary_stream_rpc_method_handler
        handlers = {
            "HealthCheck": unary(self._answer(pb.HealthCheckResponse(status="OK"))),
            "GetModelInfo": unary(self._answer(pb.GetModelInfoResponse(model_id="m"))),
            "GetServerInfo": unary(self._answer(pb.GetServerInfoResponse(tensor_parallel_size=2))),
            "Abort": unary(self._answer(pb.AbortResponse())),
            "Generate": stream(self._generate),
        }
        server = grpc.aio.server(options=[("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)])
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(stock_codec.SERVICE, handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"grpc://127.0.0.1:{port}"
        finally:
            await server.stop(None)

    def _answer(self, message: Any) -> Callable[[bytes, Any], Awaitable[bytes]]:
        async def answer(data: bytes, context: Any) -> bytes:
            return bytes(message.SerializeToString())

        return answer

    async def _generate(self, data: bytes, context: Any) -> None:
        self.calls += 1
        try:
            await self._behaviour(context)
        finally:
            self.ended += 1


async def failing(behaviour: Behaviour, **options: Any) -> tuple[list[int], Finish]:
    """The tokens and the end of a request of 8 tokens, at a server that does so with it."""
    server = RawServer(behaviour)
    async with server.listening() as address, trtllm_at(address) as transport:
        stream = transport.open(submit_of(8, **options))
        tokens, (finish,) = await drained(stream)
        stream.close()
        assert transport.in_flight == 0
        await until(lambda: server.ended == server.calls)
        return tokens[0], finish


async def test_a_request_goes_out_under_an_id_of_its_own_each_time() -> None:
    stock = StockServer(engine_of())
    async with stock.listening() as (address, _), trtllm_at(address) as transport:
        for _ in range(2):
            stream = transport.open(submit_of(3, name="same", cache_salt="tenant", adapter=Adapter("legal")))
            await drained(stream)
            stream.close()
        first, second = (request.request_id for request in stock.requests)
        assert first != second
        assert first.startswith("same.")
        assert not any(request.HasField("lora_config") for request in stock.requests)
        assert all(request.streaming for request in stock.requests)


@pytest.mark.parametrize("interval", [0, 64])
async def test_an_answer_that_nobody_watches_comes_in_one_message(interval: int) -> None:
    stock = StockServer(engine_of())
    async with stock.listening() as (address, _), trtllm_at(address) as transport:
        stream = transport.open(submit_of(200, delta_interval=interval))
        events = await stream.receive()
        assert [len(tokens) for _, tokens, _, _ in events] == [200, 0]
        stream.close()
        assert not stock.requests[0].streaming


@pytest.mark.parametrize("closes", ["close", "fail"])
async def test_cancelling_ends_the_call_and_says_so(closes: str) -> None:
    engine = SilentEngine()
    stock = StockServer(engine)
    async with stock.listening() as (address, _), trtllm_at(address) as transport:
        stream = transport.open(submit_of())
        await until(lambda: engine.submitted)
        if closes == "close":
            stream.close()
        else:
            stream.fail(ReplicaUnavailable("The replica stands still."))
        await until(lambda: stock.aborts)
        assert stock.aborts == [stock.requests[0].request_id]
        await until(lambda: engine.cancelled)
        assert transport.in_flight == 0


async def test_load_is_counted_here() -> None:
    engine, gate = gated_engine()
    async with StockServer(engine).listening() as (address, _), trtllm_at(address) as transport:
        stream = transport.open(submit_of(3, prompt=range(10), n=2), kv_tokens=30)
        assert transport.view.load.prefill_tokens == 10
        assert (transport.in_flight, transport.view.load.tokens_in_flight) == (2, 30)
        gate.let(1)
        await stream.receive()
        assert (transport.in_flight, transport.view.load.prefill_tokens) == (2, 0)
        gate.open()
        await drained(stream, 2)
        stream.close()
        assert (transport.in_flight, transport.view.load.tokens_in_flight) == (0, 0)


async def test_what_a_server_says_of_itself() -> None:
    stock = StockServer(engine_of(), tp=4, pp=2)
    stock.model_info.supported_features.append("guided_decoding")
    shape = Shape(tp=4, ep=2, pp=2)
    async with stock.listening() as (address, _), trtllm_at(address, shape=shape) as transport:
        assert transport.info is not None
        assert transport.info.shape == shape
        assert transport.info.fingerprint == "trtllm-1.3.0-/models/mixtral"
        assert transport.info.max_sequence_tokens == 32768
        features = Feature(transport.view.features)
        assert features == Feature.TOKENS & ~Feature.LOGIT_BIAS | Feature.GUIDED


async def state_of(address: str, **options: Any) -> tuple[State, str]:
    """What becomes of a transport to something that it should not use."""
    transport = TrtllmConnection(spec_of(address, engine="trtllm_grpc", **options), TransportContext("w"))
    before = transport.health.reason
    transport.start()
    try:
        await until(lambda: transport.health.reason != before)
        assert not transport.connected
        with pytest.raises(ReplicaUnavailable):
            transport.open(submit_of())
        return transport.health.state, transport.health.reason
    finally:
        await transport.aclose()


async def test_a_sick_engine_is_not_used_though_the_call_says_ok() -> None:
    stock = StockServer(engine_of())
    stock.status = "Executor is unhealthy"
    async with stock.listening() as (address, _):
        state, reason = await state_of(address)
        assert (state, reason) == (State.CONNECTING, "it says of itself: Executor is unhealthy")


@pytest.mark.parametrize(
    ("tp", "pp", "problem"), [(4, 1, "shape is tp4, configured tp2"), (2, 2, "shape is tp2 pp2, configured tp2")]
)
async def test_another_shape_is_refused(tp: int, pp: int, problem: str) -> None:
    async with StockServer(engine_of(), tp=tp, pp=pp).listening() as (address, _):
        state, reason = await state_of(address)
        assert state is State.REFUSED
        assert problem in reason


async def test_a_context_that_the_server_cannot_hold_is_refused() -> None:
    async with StockServer(engine_of()).listening() as (address, _):
        state, reason = await state_of(address, context=65536)
        assert state is State.REFUSED
        assert "max_sequence_tokens is 32768" in reason


async def test_a_server_of_sessions_alone_is_refused() -> None:
    async with DropsStream().listening() as address:
        state, reason = await state_of(f"grpc://{address}")
        assert state is State.REFUSED
        assert "no TensorRT-LLM server: UNIMPLEMENTED" in reason


async def test_a_web_server_is_refused() -> None:
    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/html\r\n\r\n<html>no</html>")
        writer.close()

    server = await asyncio.start_server(page, "127.0.0.1", 0)
    async with server:
        state, reason = await state_of(f"grpc://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        assert (state, reason) == (State.REFUSED, "another protocol is spoken there: HTTP/1")


async def test_another_protocol_under_the_same_names_is_refused() -> None:
    server = RawServer(lambda context: context.write(b""))
    server._answer = lambda message: _garbage  # type: ignore[method-assign]
    async with server.listening() as address:
        state, reason = await state_of(address)
        assert state is State.REFUSED
        assert "another protocol is spoken there" in reason


async def _garbage(data: bytes, context: Any) -> bytes:
    return b"\xff\xff"


async def test_a_server_that_comes_back_is_used_again() -> None:
    first = StockServer(engine_of())
    async with first.listening() as (address, server), trtllm_at(address) as transport:
        stream = transport.open(submit_of())
        await drained(stream)
        stream.close()
        await server.stop(None)
        with pytest.raises(ReplicaUnavailable):
            await drained(transport.open(submit_of()))
        assert not transport.connected
        async with StockServer(engine_of()).listening(address.removeprefix("grpc://")):
            await until(lambda: transport.connected)
            stream = transport.open(submit_of())
            await drained(stream)
            stream.close()


async def test_a_prompt_over_the_cap_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    stock = StockServer(engine_of())
    async with stock.listening() as (address, _), trtllm_at(address) as transport:
        monkeypatch.setattr(stock_codec, "MAX_MESSAGE_BYTES", 1000)
        stream = transport.open(submit_of(prompt=range(1000), n=2))
        _, finishes = await drained(stream, 2)
        assert [finish.failure and finish.failure.code for finish in finishes] == ["context_length_exceeded"] * 2
        stream.close()
        assert not stock.requests


async def test_an_answer_over_the_cap_is_an_error_and_no_hang() -> None:
    async def flood(context: Any) -> None:
        await context.write(chunk(0, [1]))
        await context.write(bytes(stock_codec.MAX_MESSAGE_BYTES + 1))

    tokens, finish = await failing(flood)
    assert tokens == [1]
    assert finish.failure is not None
    assert finish.failure.code == "engine_error"
    assert "larger than max" in finish.failure.message


async def test_an_answer_that_never_ends_is_ended_here() -> None:
    async def endless(context: Any) -> None:
        while True:
            await context.write(chunk(0, [1]))

    tokens, finish = await failing(endless)
    assert tokens == [1] * 8
    assert finish.failure is not None
    assert "9 tokens, where 8 were asked for" in finish.failure.message


async def test_a_call_that_does_not_end_after_its_answer_is_ended_here(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lingers(context: Any) -> None:
        await context.write(complete(0, [1, 2]))
        await asyncio.Event().wait()

    monkeypatch.setattr("routing.transports.trtllm_grpc.END_SECONDS", 0.01)
    tokens, finish = await failing(lingers)
    assert (tokens, finish.failure) == ([1, 2], None)


@pytest.mark.parametrize("data", [b"<html>It works!</html>", chunk(3, [1]), b""])
async def test_what_is_no_answer_fails_the_request(data: bytes) -> None:
    async def babble(context: Any) -> None:
        await context.write(data)
        await asyncio.Event().wait()

    _, finish = await failing(babble)
    assert finish.failure is not None
    assert finish.failure.code == "engine_error"


async def test_an_answer_without_its_end_fails_the_request() -> None:
    async def stops(context: Any) -> None:
        await context.write(chunk(0, [1, 2]))

    tokens, finish = await failing(stops)
    assert tokens == [1, 2]
    assert finish.failure is not None
    assert "stopped without its end" in finish.failure.message


@pytest.mark.parametrize(
    ("status", "details", "code"),
    [
        (
            "INVALID_ARGUMENT",
            "The prompt length (9000) exceeds max_num_tokens (8192)",
            "context_length_exceeded",
        ),
        ("INVALID_ARGUMENT", "top_p must be in [0, 1]", "unsupported_parameter"),
        ("INTERNAL", "CUDA error", "engine_error"),
        ("UNKNOWN", "", "engine_error"),
        ("UNAVAILABLE", "the replica is draining", "draining"),
    ],
)
async def test_statuses_become_failures(status: str, details: str, code: str) -> None:
    async def aborts(context: Any) -> None:
        await context.abort(grpc.StatusCode[status], details)

    _, finish = await failing(aborts)
    assert finish.failure is not None
    assert finish.failure.code == code


@pytest.mark.parametrize("status", ["UNAVAILABLE", "CANCELLED", "RESOURCE_EXHAUSTED", "UNIMPLEMENTED"])
async def test_a_server_that_gives_up_a_request_loses_it_to_others(status: str) -> None:
    async def aborts(context: Any) -> None:
        await context.write(chunk(0, [1]))
        await context.abort(grpc.StatusCode[status], "at 10.0.0.7")

    with pytest.raises(ReplicaUnavailable) as caught:
        await failing(aborts)
    assert "10.0.0.7" not in caught.value.message
    assert "10.0.0.7" in caught.value.detail


async def test_a_value_that_does_not_fit_the_wire_fails_its_own_request_alone() -> None:
    async with StockServer(engine_of()).listening() as (address, _), trtllm_at(address) as transport:
        bad, good = transport.open(submit_of(3, prompt=[-1])), transport.open(submit_of(3))
        with pytest.raises(Exception, match="The gateway failed on this request"):
            await drained(bad)
        await drained(good)
        good.close()
        assert transport.in_flight == 0


async def test_closing_the_transport_ends_every_call() -> None:
    engine = SilentEngine(INFO)
    async with StockServer(engine).listening() as (address, _):
        async with trtllm_at(address) as transport:
            streams = [transport.open(submit_of(name=f"r{i}")) for i in range(5)]
            await until(lambda: len(engine.submitted) == 5)
        for stream in streams:
            with pytest.raises(ReplicaUnavailable):
                await stream.receive()
        await until(lambda: len(set(engine.cancelled)) == 5)


def test_hand_offs_are_not_sent() -> None:
    submit = submit_of(3, handoff=Handoff(b"state", (1,)), prefill_only=True)
    message = pb.GenerateRequest.FromString(stock_codec.encode_generate(submit, "r"))
    assert not message.HasField("disaggregated_params")
