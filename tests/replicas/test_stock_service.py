"""TensorRT-LLM's own service in front of our replicas, asked with the published stubs."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import msgspec
import pytest
from smg_grpc_proto.generated import common_pb2
from smg_grpc_proto.generated import trtllm_service_pb2 as pb
from smg_grpc_proto.generated import trtllm_service_pb2_grpc as stubs

from protos.features import Feature
from protos.types import Failure, Finish, FinishReason, KvEvent, KvStored, Shape, Timing
from replicas.engine import Delta, Engine
from replicas.replica_server import ReplicaServer
from tests.fakes import INFO, DiesAfter, RefusesWith, SilentEngine, info_of
from tests.harness import answers_of, engine_of, serving, submit_of, worker_at
from tests.loops import until

DONE = Finish(FinishReason.STOP, 3, 2, 2, Timing(1_000_000, 2_000_000, 3_000_000))


@contextlib.asynccontextmanager
async def stub_at(engine: Engine) -> AsyncIterator[tuple[ReplicaServer, Any]]:
    async with serving(engine) as (server, address), channel_to(address) as stub:
        yield server, stub


@contextlib.asynccontextmanager
async def channel_to(address: str) -> AsyncIterator[Any]:
    # Without probes of the bandwidth a call that is not read holds 64 kB, and not what the machine has.
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.http2.bdp_probe", 0)]
    channel = grpc.aio.insecure_channel(address, options=options)
    try:
        yield stubs.TrtllmServiceStub(channel)
    finally:
        await channel.close()


def request_of(count: int = 8, *, name: str = "r", n: int = 1, streaming: bool = True, **fields: Any) -> Any:
    """The stock service's counterpart of tests/harness.py `submit_of`."""
    return pb.GenerateRequest(
        request_id=name,
        tokenized=pb.TokenizedInput(input_token_ids=[1, 2, 3]),
        max_tokens=count,
        streaming=streaming,
        ignore_eos=True,
        sampling_config=pb.SamplingConfig(beam_width=1, num_return_sequences=n, seed=7),
        **fields,
    )


async def status_of(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async for _ in call:
            pass
    return caught.value.code(), caught.value.details() or ""


async def test_a_stream_has_deltas_and_then_each_sequence_whole() -> None:
    expected = await answers_of(submit_of(20, n=3))
    async with stub_at(engine_of()) as (_, stub):
        messages = [message async for message in stub.Generate(request_of(20, n=3))]
        assert all(message.request_id == "r" for message in messages)
        streamed: list[list[int]] = [[], [], []]
        for message in messages[:-3]:
            chunk = message.chunk
            streamed[chunk.sequence_index] += chunk.token_ids
            assert chunk.completion_tokens == len(streamed[chunk.sequence_index])
            assert chunk.prompt_tokens == 3
        assert streamed == expected
        for index, message in enumerate(messages[-3:]):
            complete = message.complete
            assert (complete.sequence_index, list(complete.output_token_ids)) == (index, expected[index])
            assert (complete.finish_reason, complete.completion_tokens) == ("length", 20)


async def test_without_streaming_there_are_ends_alone() -> None:
    async with stub_at(engine_of()) as (_, stub):
        output = pb.OutputConfig(logprobs=2)
        messages = [m async for m in stub.Generate(request_of(9, n=2, streaming=False, output_config=output))]
        assert [message.WhichOneof("response") for message in messages] == ["complete"] * 2
        for message in messages:
            entries = message.complete.logprobs
            assert [entry.token_id for entry in entries] == list(message.complete.output_token_ids)
            assert all(len(entry.top_logprobs) == 2 for entry in entries)


async def test_what_an_end_says_of_its_phases_and_of_the_cache() -> None:
    engine = SilentEngine()
    async with stub_at(engine) as (_, stub):
        call = stub.Generate(request_of(2, output_config=pb.OutputConfig(return_perf_metrics=True)))
        reader = asyncio.create_task(call.read())
        await until(lambda: engine.submitted)
        engine.say(Delta(1, 0, [5], cached_tokens=2))
        assert (await reader).chunk.cached_tokens == 2
        engine.say(Delta(1, 0, [6]), finishes=[(1, 0, DONE)])
        assert list((await call.read()).chunk.token_ids) == [6]
        complete = (await call.read()).complete
        assert (complete.finish_reason, complete.cached_tokens) == ("stop", 2)
        metrics = complete.perf_metrics
        assert metrics.last_token_time == pytest.approx(time.time(), abs=60)
        assert metrics.last_token_time - metrics.first_token_time == pytest.approx(3.0)
        assert metrics.first_token_time - metrics.first_scheduled_time == pytest.approx(2.0)
        assert metrics.first_scheduled_time - metrics.arrival_time == pytest.approx(1.0)


async def test_a_client_that_does_not_read_gets_fewer_and_longer_chunks() -> None:
    engine = SilentEngine()
    async with stub_at(engine) as (_, stub):
        call = stub.Generate(request_of(1_000_000))
        await until(lambda: engine.submitted)
        for _ in range(400):
            engine.say(Delta(1, 0, [2**31] * 1000))
            await asyncio.sleep(0.001)  # the wire takes what it can
        engine.say(finishes=[(1, 0, DONE)])
        messages = [message async for message in call]
        assert len(messages) < 200
        assert sum(len(message.chunk.token_ids) for message in messages) == 400_000
        assert len(messages[-1].complete.output_token_ids) == 400_000


async def test_abort_ends_a_request_in_the_engine_and_at_its_client() -> None:
    engine = SilentEngine()
    async with stub_at(engine) as (server, stub):
        call = stub.Generate(request_of(name="mine"))
        reader = asyncio.create_task(call.read())
        await until(lambda: engine.submitted)
        answer = await stub.Abort(pb.AbortRequest(request_id="mine"))
        assert (answer.success, answer.message) == (True, "Request mine aborted")
        assert (await reader).complete.finish_reason == "cancelled"
        assert await call.read() is grpc.aio.EOF
        assert engine.cancelled == [1]
        again = await stub.Abort(pb.AbortRequest(request_id="mine"))
        assert (again.success, again.message) == (False, "Request mine not found")
        assert not server._owners


async def test_a_client_that_goes_away_ends_its_request() -> None:
    engine = SilentEngine()
    async with stub_at(engine) as (server, stub):
        call = stub.Generate(request_of())
        await until(lambda: engine.submitted)
        call.cancel()
        await until(lambda: engine.cancelled == [1])
        assert not server._owners


async def test_what_a_replica_says_of_itself() -> None:
    info = info_of(shape=Shape(tp=4, ep=2, pp=2))
    engine = SilentEngine(msgspec.structs.replace(info, features=Feature.TOKENS | Feature.GUIDED))
    async with stub_at(engine) as (_, stub):
        assert (await stub.HealthCheck(pb.HealthCheckRequest())).status == "OK"
        model = await stub.GetModelInfo(pb.GetModelInfoRequest())
        assert (model.model_id, model.max_seq_len, model.max_batch_size) == ("mixtral-8x7b", 32768, 8)
        assert list(model.supported_features) == ["guided_decoding"]
        server = await stub.GetServerInfo(pb.GetServerInfoRequest())
        assert (server.tensor_parallel_size, server.pipeline_parallel_size, server.world_size) == (4, 2, 8)


async def test_what_the_stock_server_has_not_either() -> None:
    async with stub_at(engine_of()) as (_, stub):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Embed(pb.EmbedRequest())
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        code, _ = await status_of(stub.GetTokenizer(common_pb2.GetTokenizerRequest()))
        assert code is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (pb.GenerateRequest(), "Missing tokenized input"),
        (request_of(n=1025), "1 to 1024 sequences"),
        (request_of(bad=["x"]), "not supported here: bad words"),
        (request_of(0), "max_tokens must be at least 1"),
    ],
)
async def test_requests_that_cannot_be_served_are_refused(request_: Any, problem: str) -> None:
    async with stub_at(engine_of()) as (server, stub):
        code, details = await status_of(stub.Generate(request_))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert problem in details
        assert not server._owners


async def test_stop_strings_are_left_to_who_knows_the_text() -> None:
    async with stub_at(engine_of()) as (_, stub):
        messages = [m async for m in stub.Generate(request_of(5, streaming=False, stop=["zzz"]))]
        assert messages[0].complete.completion_tokens == 5


async def test_bytes_that_are_no_request_are_refused() -> None:
    async with serving(engine_of()) as (_, address):
        channel = grpc.aio.insecure_channel(address)
        for method in ("Generate", "SubscribeKvEvents"):
            stream: Any = channel.unary_stream(f"/trtllm.TrtllmService/{method}")
            code, _ = await status_of(stream(b"<html>"))
            assert code is grpc.StatusCode.INVALID_ARGUMENT
        abort: Any = channel.unary_unary("/trtllm.TrtllmService/Abort")
        with pytest.raises(grpc.aio.AioRpcError):
            await abort(b"<html>")
        await channel.close()


async def test_an_engine_that_refuses_is_an_invalid_argument() -> None:
    engine = RefusesWith(Failure("context_length_exceeded", "too long for 4096"))
    async with stub_at(engine) as (_, stub):
        assert await status_of(stub.Generate(request_of(n=2))) == (
            grpc.StatusCode.INVALID_ARGUMENT,
            "too long for 4096",
        )


async def test_a_draining_replica_says_so_and_ends_what_it_has() -> None:
    engine = SilentEngine()
    async with stub_at(engine) as (server, stub):
        call = stub.Generate(request_of(2, streaming=False))
        reader = asyncio.create_task(call.read())
        await until(lambda: engine.submitted)
        draining = asyncio.create_task(server.drain(10.0))
        await until(lambda: server._draining)
        assert (await stub.HealthCheck(pb.HealthCheckRequest())).status.startswith("Draining")
        code, details = await status_of(stub.Generate(request_of(name="late")))
        assert (code, details) == (grpc.StatusCode.UNAVAILABLE, "the replica is draining")
        assert not draining.done()
        engine.say(Delta(1, 0, [5, 6]), finishes=[(1, 0, DONE)])
        await draining
        await server.close()  # at once: the answer still gets out
        assert list((await reader).complete.output_token_ids) == [5, 6]


async def test_a_lost_engine_fails_its_calls_and_is_no_longer_healthy() -> None:
    async with stub_at(DiesAfter(1)) as (_, stub):
        code, details = await status_of(stub.Generate(request_of()))
        assert (code, details) == (grpc.StatusCode.INTERNAL, "the engine is lost")
        assert (await stub.HealthCheck(pb.HealthCheckRequest())).status == "The engine is lost"


async def test_a_session_and_stock_clients_share_the_engine() -> None:
    expected = await answers_of(submit_of(30), submit_of(25))
    async with serving(engine_of()) as (_, address), channel_to(address) as stub, worker_at(address) as worker:
        await worker.hello()
        call = stub.Generate(request_of(25, streaming=False))
        await worker.send((1, submit_of(30)))
        await worker.finished(1)
        assert worker.tokens[1] == expected[0]
        assert list((await call.read()).complete.output_token_ids) == expected[1]


async def test_subscribers_get_kv_events_as_they_come() -> None:
    engine = SilentEngine(INFO)
    async with stub_at(engine) as (server, stub):
        call = stub.SubscribeKvEvents(common_pb2.SubscribeKvEventsRequest())
        await call.initial_metadata()  # at once, though nothing has happened yet
        reader = asyncio.create_task(call.read())
        await until(lambda: server.relay._subscriptions)
        engine.say(events=[KvEvent(0, KvStored(None, ((11, (1, 2)),)))])
        first = await reader
        assert (first.sequence_number, first.events[0].stored.blocks[0].block_hash) == (1, 11)
        call.cancel()
        await until(lambda: not server.relay._subscriptions)
