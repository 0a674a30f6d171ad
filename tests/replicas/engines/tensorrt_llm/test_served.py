"""The engine behind a replica server, and a gateway's session to it."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from unittest import mock

import pytest

from protos.launch_step import LaunchStep
from protos.types import Adapter, FinishReason, KvUpdate
from replicas.engines.tensorrt_llm.options import LoraOptions
from replicas.engines.tensorrt_llm.trtllm_engine import SKIP_PROFILING, TensorRtLlmEngine
from replicas.replica_server import ReplicaServer
from replicas.serve_pool import serve_pool
from routing.transports.replica_connection import Listener, TransportContext
from routing.transports.session_transport import SessionConnection
from tests.fake_tensorrt_llm.llm import LLM
from tests.harness import drained, serving, spec_of, submit_of, worker_at
from tests.loops import until
from tests.trt_engines import trt_engine


@contextlib.asynccontextmanager
async def connected(engine: TensorRtLlmEngine) -> AsyncIterator[tuple[SessionConnection, ReplicaServer, LLM]]:
    await engine.start(lambda step: None)
    async with serving(engine) as (server, address):
        ready = asyncio.Event()
        spec = spec_of(address, engine="tensorrt_llm")
        connection = SessionConnection(spec, TransportContext("test", Listener(ready.set)))
        connection.start()
        try:
            await ready.wait()
            yield connection, server, LLM.last
        finally:
            await connection.aclose()
    await engine.stop()


async def test_tokens_stream_through_a_session() -> None:
    async with connected(trt_engine()) as (connection, _, llm):
        streams = [connection.open(submit_of(20, n=n, prompt=range(40))) for n in (1, 3)]
        answers = [await drained(stream, n) for stream, n in zip(streams, (1, 3), strict=True)]
        for tokens, finishes in answers:
            assert all(len(run) == 20 for run in tokens)
            assert all(finish.reason is FinishReason.LENGTH for finish in finishes)
        assert answers[0][0][0] == answers[1][0][0]
        for stream in streams:
            stream.close()
        await until(lambda: not llm.executor.active)


async def test_a_client_that_leaves_is_heard_by_the_library() -> None:
    async with connected(trt_engine()) as (connection, _, llm):
        llm.prefill_steps = 1 << 30
        stream = connection.open(submit_of(900))
        await until(lambda: llm.executor.active)
        stream.close()
        await until(lambda: not llm.executor.active)
        assert llm.calls[-1]["inputs"] == [1, 2, 3]


async def test_a_dead_executor_fails_every_stream_and_the_replica() -> None:
    async with connected(trt_engine()) as (connection, server, llm):
        llm.held = True
        streams = [connection.open(submit_of(900)) for _ in range(5)]
        await until(lambda: len(llm.executor.waiting) == 5)
        llm.executor.step()
        for stream in streams:
            await stream.receive()
        llm.die()
        llm.executor.step()
        for stream in streams:
            _, (finish,) = await drained(stream)
            assert finish.failure is not None
            assert finish.failure.code == "engine_error"
            stream.close()
        await server.failed
        await until(lambda: connection.view.load.draining)  # no new requests


async def test_a_pool_with_a_dead_engine_exits_for_its_supervisor() -> None:
    engine, addresses = trt_engine(), list[str]()
    pool = asyncio.create_task(
        serve_pool([("127.0.0.1:0", engine)], drain_seconds=1, stop=asyncio.Event(), ready=addresses.extend)
    )
    await until(lambda: addresses)
    assert len(LLM.last.calls) == 1  # it has answered before it listens
    LLM.last.executor.shutdown()
    assert await pool == 1
    assert LLM.last.shutdowns == 1


async def test_a_pool_that_is_stopped_finishes_and_gives_the_gpus_back() -> None:
    engine, addresses, stop = trt_engine(), list[str](), asyncio.Event()
    pool = asyncio.create_task(
        serve_pool([("127.0.0.1:0", engine)], drain_seconds=5, stop=stop, ready=addresses.extend)
    )
    await until(lambda: addresses)
    async with worker_at(addresses[0]) as worker:
        await worker.hello()
        llm = LLM.last
        llm.held = True
        await worker.send((1, submit_of(20)))
        await until(lambda: llm.executor.waiting)
        stop.set()
        llm.held = False
        llm.executor.kick()
        await worker.finished(1, ack=False)
        assert len(worker.tokens[1]) == 20
        assert await pool == 0
        assert llm.shutdowns == 1


async def test_a_pool_that_is_stopped_while_it_loads_does_not_wait_for_that() -> None:
    addresses, stop, original = list[str](), asyncio.Event(), LLM.__init__

    def wedged(self: LLM, *args: object, **kwargs: object) -> None:
        original(self, *args, **kwargs)  # type: ignore[arg-type]
        self.wedged = True
        stop.set()

    with mock.patch.object(LLM, "__init__", wedged):
        engines = [("127.0.0.1:0", trt_engine(warmup_seconds=600)) for _ in range(2)]
        assert await serve_pool([*engines], drain_seconds=5, stop=stop, ready=addresses.extend) == 0
    assert not addresses
    assert LLM.last.shutdowns == 1
    assert [engine._llm for _, engine in engines] == [None, None]


async def test_an_engine_that_cannot_start_listens_nowhere() -> None:
    engine, addresses = trt_engine(extra={"no_such_option": 1}), list[str]()
    with pytest.raises(ValueError, match="no_such_option"):
        await serve_pool([("127.0.0.1:0", engine)], drain_seconds=1, stop=asyncio.Event(), ready=addresses.extend)
    assert not addresses


async def test_loaded_adapters_and_kv_blocks_are_told_to_workers() -> None:
    engine = trt_engine(lora=LoraOptions({"customer-42": "/tmp"}))
    await engine.start(lambda step: None)
    async with serving(engine) as (_, address), worker_at(address) as first:
        welcome = await first.hello(kv_updates=True)
        assert welcome.info.adapters == ("customer-42",)
        await first.send((1, submit_of(3, prompt=range(100), adapter=Adapter("customer-42"))))
        await first.finished(1)
        while not any(isinstance(step.kv_update, KvUpdate) and step.kv_update.stored for step in first.steps):
            await first.step()
        told = [step.adapters for step in first.steps if step.adapters is not None]
        assert told[-1] == ("customer-42",)
        async with worker_at(address) as second:
            await second.hello()
            assert (await second.step()).adapters == ("customer-42",)
    await engine.stop()


async def test_a_known_cache_is_not_profiled(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv(SKIP_PROFILING, "")  # so that it is taken back at the end
    del os.environ[SKIP_PROFILING]
    seen: list[str | None] = []
    original = LLM.__init__

    def noted(self: LLM, *args: object, **kwargs: object) -> None:
        seen.append(os.environ.get(SKIP_PROFILING))
        original(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(LLM, "__init__", noted)
    caplog.set_level("INFO")
    steps: list[LaunchStep] = []
    for profiled in (True, False):
        engine = trt_engine(profiled=profiled)
        await engine.start(steps.append)
        await engine.stop()
    assert seen == [None, "1"]
    assert steps == [LaunchStep.LOAD, LaunchStep.WARM_UP] * 2
    said = [message for message in caplog.messages if "--kv-no-profiling" in message]
    assert said == ["the KV cache has 16000 tokens: --kv-tokens 16000 --kv-no-profiling"]
    with pytest.raises(ValueError, match="without profiling"):
        trt_engine(profiled=False, max_tokens=None)
