"""A gRPC server that behaves like `trtllm-serve --grpc`, its gaps included, around any engine of ours.

After tensorrt_llm/grpc/smg/{servicer,request_manager}.py, 1.3: it uses the published stubs and nothing of our codecs.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import msgspec
from smg_grpc_proto.generated import trtllm_service_pb2 as pb
from smg_grpc_proto.generated import trtllm_service_pb2_grpc as stubs

from protos.types import Finish, FinishReason, Sampling, Submit, TokenLogprobs
from replicas.engine import Engine, EngineStep
from routing.transports.replica_connection import Listener, TransportContext
from routing.transports.trtllm_grpc import TrtllmConnection
from tests.harness import spec_of

MAX_BYTES = 32 * 1024 * 1024
_REASONS = {FinishReason.STOP: "stop", FinishReason.LENGTH: "length", FinishReason.CANCELLED: "cancelled"}


class Result:
    """One request's outputs, which only grow; like the engine's own object it is one for all its updates."""

    def __init__(self, handle: int, request: pb.GenerateRequest) -> None:
        self.handle = handle
        self.request = request
        n = request.sampling_config.num_return_sequences or 1
        self.tokens: list[list[int]] = [[] for _ in range(n)]
        self.logprobs: list[list[TokenLogprobs]] = [[] for _ in range(n)]
        self.finishes: dict[int, Finish] = {}
        self.cached = 0
        self.error: BaseException | None = None
        self.changed = asyncio.Event()

    @property
    def finished(self) -> bool:
        return len(self.finishes) == len(self.tokens)


class StockServer(stubs.TrtllmServiceServicer):  # type: ignore[misc]
    """`requests` are all that came, `aborts` the ids of all Abort calls; `status` is what HealthCheck says."""

    def __init__(self, engine: Engine, *, model: str = "/models/mixtral", tp: int = 2, pp: int = 1) -> None:
        self.requests: list[pb.GenerateRequest] = []
        self.aborts: list[str] = []
        self.status = "OK"
        self.model_info = pb.GetModelInfoResponse(model_id=model, max_seq_len=32768, vocab_size=32000)
        self.server_info = pb.GetServerInfoResponse(
            version="1.3.0", backend="tensorrt-llm", tensor_parallel_size=tp, pipeline_parallel_size=pp
        )
        self._engine = engine
        self._results: dict[int, Result] = {}
        self._by_id: dict[str, Result] = {}

    @contextlib.asynccontextmanager
    async def listening(
        self, address: str = "127.0.0.1:0", most_calls: int = 1000
    ) -> AsyncIterator[tuple[str, grpc.aio.Server]]:
        options = [
            ("grpc.max_concurrent_streams", most_calls),
            ("grpc.max_send_message_length", MAX_BYTES),
            ("grpc.max_receive_message_length", MAX_BYTES),
        ]
        server = grpc.aio.server(options=[*options, ("grpc.so_reuseport", 0)])
        stubs.add_TrtllmServiceServicer_to_server(self, server)
        port = server.add_insecure_port(address)
        await server.start()
        engine = asyncio.create_task(self._run())
        try:
            yield f"grpc://127.0.0.1:{port}", server
        finally:
            await server.stop(None)
            engine.cancel()
            await asyncio.gather(engine, return_exceptions=True)

    async def _run(self) -> None:
        try:
            await self._engine.run(self._emit)
        except Exception as error:
            self.status = "Executor is unhealthy"
            for result in self._results.values():
                result.error = error
                result.changed.set()

    def _emit(self, step: EngineStep) -> None:
        for delta in step.deltas:
            result = self._results.get(delta.handle)
            if result is not None:
                result.tokens[delta.index] += delta.token_ids
                result.logprobs[delta.index] += delta.logprobs or []
                result.cached = result.cached or delta.cached_tokens or 0
                result.changed.set()
        for handle, index, finish in step.finishes:
            result = self._results.get(handle)
            if result is not None:
                result.finishes[index] = finish
                result.changed.set()

    async def Generate(self, request: Any, context: Any) -> AsyncIterator[pb.GenerateResponse]:  # noqa: N802
        self.requests.append(request)
        if not request.HasField("tokenized"):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "Missing tokenized input")
        if self.status != "OK":
            await context.abort(grpc.StatusCode.INTERNAL, self.status)
        result = Result(len(self.requests), request)
        self._results[result.handle] = self._by_id[request.request_id] = result
        self._engine.submit(result.handle, submit_of(request))
        sent = [0] * len(result.tokens)
        try:
            while not result.finished:
                await result.changed.wait()
                result.changed.clear()
                if result.error is not None:
                    await context.abort(grpc.StatusCode.INTERNAL, str(result.error))
                for failure in (finish.failure for finish in result.finishes.values() if finish.failure):
                    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, failure.message)
                if request.streaming:
                    for message in chunks(result, sent):
                        yield message
            for index in range(len(result.tokens)):
                yield complete(result, index)
        except asyncio.CancelledError:
            self._engine.cancel(result.handle)
            raise
        finally:
            self._results.pop(result.handle, None)
            self._by_id.pop(request.request_id, None)

    async def Embed(self, request: Any, context: Any) -> None:  # noqa: N802
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Embed RPC not yet implemented")

    async def HealthCheck(self, request: Any, context: Any) -> pb.HealthCheckResponse:  # noqa: N802
        return pb.HealthCheckResponse(status=self.status)

    async def Abort(self, request: Any, context: Any) -> pb.AbortResponse:  # noqa: N802
        self.aborts.append(request.request_id)
        result = self._by_id.pop(request.request_id, None)
        if result is not None:
            self._engine.cancel(result.handle)
        return pb.AbortResponse(success=result is not None)

    async def GetModelInfo(self, request: Any, context: Any) -> pb.GetModelInfoResponse:  # noqa: N802
        return self.model_info

    async def GetServerInfo(self, request: Any, context: Any) -> pb.GetServerInfoResponse:  # noqa: N802
        return self.server_info


class OwnNames:
    """An engine that is told the requests' own ids, without what the transport adds to them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.info = engine.info
        self.cancel = engine.cancel
        self.run = engine.run

    def submit(self, handle: int, request: Submit) -> None:
        name = request.request_id.rpartition(".")[0]
        self._engine.submit(handle, msgspec.structs.replace(request, request_id=name))


@contextlib.asynccontextmanager
async def trtllm_at(address: str, **options: Any) -> AsyncIterator[TrtllmConnection]:
    """A transport to the server there, once it has found it."""
    ready = asyncio.Event()
    connection = TrtllmConnection(
        spec_of(address, engine="trtllm_grpc", **options), TransportContext("w", Listener(ready.set))
    )
    connection.start()
    try:
        while not connection.connected:
            ready.clear()
            await ready.wait()
        yield connection
    finally:
        await connection.aclose()


def submit_of(request: pb.GenerateRequest) -> Submit:
    """What the engine runs of a request; adapters, salts and phases are passed over. Its id loses our own suffix."""
    config, output = request.sampling_config, request.output_config
    return Submit(
        request.request_id.rpartition(".")[0],
        list(request.tokenized.input_token_ids),
        request.max_tokens,
        Sampling(
            n=config.num_return_sequences or 1,
            seed=config.seed if config.HasField("seed") else None,
            ignore_eos=request.ignore_eos,
            stop_token_ids=tuple(request.stop_token_ids),
            logprobs=output.logprobs if output.HasField("logprobs") else None,
        ),
    )


def chunks(result: Result, sent: list[int]) -> list[pb.GenerateResponse]:
    messages = []
    for index, tokens in enumerate(result.tokens):
        new, known = tokens[sent[index] :], sent[index]
        if new:
            sent[index] = len(tokens)
            chunk = pb.GenerateStreamChunk(
                token_ids=new,
                sequence_index=index,
                prompt_tokens=len(result.request.tokenized.input_token_ids),
                completion_tokens=len(tokens),
                cached_tokens=result.cached,
                logprobs=logprobs(new, result.logprobs[index][known:]),
            )
            messages.append(pb.GenerateResponse(request_id=result.request.request_id, chunk=chunk))
    return messages


def complete(result: Result, index: int) -> pb.GenerateResponse:
    tokens = result.tokens[index]
    message = pb.GenerateComplete(
        output_token_ids=tokens,
        sequence_index=index,
        finish_reason=_REASONS[result.finishes[index].reason],
        prompt_tokens=len(result.request.tokenized.input_token_ids),
        completion_tokens=len(tokens),
        cached_tokens=result.cached,
        logprobs=logprobs(tokens, result.logprobs[index]),
    )
    return pb.GenerateResponse(request_id=result.request.request_id, complete=message)


def logprobs(tokens: list[int], entries: list[TokenLogprobs]) -> list[pb.TokenLogprob]:
    return [
        pb.TokenLogprob(
            token_id=token,
            logprob=entry.chosen,
            top_logprobs=[pb.TopLogprob(token_id=other, logprob=value) for other, value in entry.top],
        )
        for token, entry in zip(tokens, entries, strict=False)
    ]
