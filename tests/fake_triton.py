"""A gRPC server that behaves as Triton does with TensorRT-LLM's models, on tritonclient's servicer and an `Engine`."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import grpc.aio
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from protos.types import Finish, Load
from replicas.engine import Delta, Engine, EngineStep
from routing.transports.triton.settings import Kind
from tests.triton_models import INPUTS, OUTPUTS, Writer, submit_of

_PACKED = {"INT32": "i", "UINT64": "Q", "FP32": "f", "BOOL": "?"}
#: What one engine step brought of a request, or what the engine died of.
_Step = tuple[Delta | None, Finish | None] | str


@dataclass
class Asked:
    """One request as it came: the values of its inputs, their shapes, and the outputs that it wants."""

    id: str
    values: dict[str, Any] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    empty_final: bool = False


class FakeTriton(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """One model of one kind. `asked` are all requests that were well-formed; attributes may be changed at any time."""

    def __init__(self, engine: Engine, kind: Kind = Kind.ENGINE, *, model: str = "tensorrt_llm") -> None:
        self.engine = engine
        self.kind = kind
        self.model = model
        self.max_batch_size = 64
        self.decoupled = True
        self.accumulate = False
        self.stop_word: int | None = None
        self.parameters: dict[str, str] = {}
        self.server_ready = self.model_ready = True
        #: Ends each stream after so many responses, without a word of it.
        self.breaks_after: int | None = None
        #: What it says to every request, in place of an answer.
        self.refuses = ""
        self.inputs = dict(INPUTS[kind])
        self.asked: list[Asked] = []
        #: What came with each stream beside its requests.
        self.metadata: list[dict[str, Any]] = []
        self.load = Load()
        self._answers: dict[int, asyncio.Queue[_Step]] = {}
        self._handle = 0
        self._dead = ""

    @contextlib.asynccontextmanager
    async def serving(self, address: str = "127.0.0.1:0", grace: float | None = None) -> AsyncIterator[str]:
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(self, server)
        port = server.add_insecure_port(address)
        await server.start()
        self._server = server
        engine = asyncio.create_task(self._run())
        try:
            yield address if address.startswith("unix:") else f"127.0.0.1:{port}"
        finally:
            engine.cancel()
            await asyncio.gather(engine, return_exceptions=True)
            await server.stop(grace)

    async def close(self) -> None:
        await self._server.stop(None)

    async def _run(self) -> None:
        try:
            await self.engine.run(self._emit)
        except Exception as error:
            self._dead = f"Executor failed process requestId 7 due to the following error: {error}"
            for answer in list(self._answers.values()):
                answer.put_nowait(self._dead)

    def _emit(self, step: EngineStep) -> None:
        self.load = step.load
        deltas = {delta.handle: delta for delta in step.deltas}
        finishes = {handle: finish for handle, _, finish in step.finishes}
        for handle in deltas.keys() | finishes.keys():
            if handle in self._answers:
                self._answers[handle].put_nowait((deltas.get(handle), finishes.get(handle)))

    # The service

    async def ServerReady(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pb.ServerReadyResponse(ready=self.server_ready)

    async def ModelReady(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pb.ModelReadyResponse(ready=self.model_ready and request.name == self.model)

    async def ServerMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pb.ServerMetadataResponse(name="triton", version="2.60.0")

    async def ModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        answer = pb.ModelMetadataResponse(name=self.model, versions=["1"], platform="tensorrtllm")
        for name, (datatype, dims, _) in self.inputs.items():
            answer.inputs.add(name=name, datatype=datatype, shape=dims)
        for name, datatype in OUTPUTS[self.kind].items():
            answer.outputs.add(name=name, datatype=datatype, shape=[-1])
        return answer

    async def ModelConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        answer = pb.ModelConfigResponse()
        answer.config.max_batch_size = self.max_batch_size
        answer.config.model_transaction_policy.decoupled = self.decoupled
        for name, value in ({"accumulate_tokens": str(self.accumulate).lower()} | self.parameters).items():
            answer.config.parameters[name].string_value = value
        return answer

    async def ModelStreamInfer(self, requests: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        self.metadata.append(dict(context.invocation_metadata()))
        async for request in requests:
            asked = Asked(request.id)
            problem = self._read(request, asked) or self.refuses
            if problem:
                yield pb.ModelStreamInferResponse(error_message=f"[request id: {request.id}] {problem}")
                continue
            self.asked.append(asked)
            sent = 0
            async with contextlib.aclosing(self._answer(asked)) as answer:
                async for response in answer:
                    if sent == self.breaks_after:
                        return
                    sent += 1
                    yield response

    def _read(self, request: Any, asked: Asked) -> str:
        """What Triton's core says of a request that does not fit the model; empty: it is read."""
        if request.model_name != self.model:
            return f"Request for unknown model: '{request.model_name}' is not found"
        batch = (1,) if self.max_batch_size else ()
        for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True):
            shape = tuple(tensor.shape)
            datatype, dims, _ = self.inputs.get(tensor.name, ("", (), True))
            if not datatype:
                return f"unexpected inference input '{tensor.name}' for model '{self.model}'"
            if tensor.datatype != datatype:
                return (
                    f"inference input '{tensor.name}' data-type is '{tensor.datatype}', but model expects '{datatype}'"
                )
            fits = shape[: len(batch)] == batch and len(shape) == len(batch) + len(dims)
            if not fits or any(dim not in (-1, got) for dim, got in zip(dims, shape[len(batch) :], strict=True)):
                return (
                    f"unexpected shape for input '{tensor.name}' for model '{self.model}'. Expected {dims}, got {shape}"
                )
            asked.values[tensor.name] = _values(datatype, raw)
            asked.shapes[tensor.name] = shape
        missing = [name for name, (_, _, optional) in self.inputs.items() if not optional and name not in asked.values]
        if missing:
            return f"expected {len(missing)} more inputs: {missing}"
        asked.outputs = [output.name for output in request.outputs]
        asked.empty_final = request.parameters["triton_enable_empty_final_response"].bool_param
        return ""

    async def _answer(self, asked: Asked) -> AsyncGenerator[Any, None]:
        self._handle += 1
        handle, submit = self._handle, submit_of(self.kind, asked.id, asked.values)
        steps: asyncio.Queue[_Step] = asyncio.Queue()
        self._answers[handle] = steps
        writer = Writer(self.kind, self.accumulate, self.stop_word)
        ended = False
        try:
            if self._dead:
                steps.put_nowait(self._dead)
            self.engine.submit(handle, submit)
            while not ended:
                step = await steps.get()
                problem = step if isinstance(step, str) else _problem(step[1])
                if problem:
                    ended = True
                    yield pb.ModelStreamInferResponse(error_message=f"[request id: {asked.id}] {problem}")
                    return
                assert not isinstance(step, str)
                delta, finish = step
                ended = finish is not None
                # A Python model ends its answer with a response of its own; the engine with its last tokens.
                apart = self.kind is Kind.BLS and ended
                if delta is not None:
                    yield self._response(asked, writer.response(delta, finish), final=ended and not apart)
                if ended and (apart or delta is None):
                    yield self._response(asked, {}, final=True)
        finally:
            del self._answers[handle]
            if not ended:
                self.engine.cancel(handle)

    def _response(self, asked: Asked, outputs: dict[str, Any], *, final: bool) -> Any:
        message = pb.ModelStreamInferResponse()
        answer = message.infer_response
        answer.model_name, answer.model_version, answer.id = self.model, "1", asked.id
        answer.parameters["triton_final_response"].bool_param = final
        for name, (datatype, shape, values) in outputs.items():
            if name in asked.outputs:
                answer.outputs.add(name=name, datatype=datatype, shape=shape)
                answer.raw_output_contents.append(_raw(datatype, values))
        return message


def _problem(finish: Finish | None) -> str:
    return f"engine: {finish.failure.message}" if finish is not None and finish.failure is not None else ""


def _values(datatype: str, raw: bytes) -> list[Any]:
    if datatype != "BYTES":
        size = struct.calcsize(f"<{_PACKED[datatype]}")
        return list(struct.unpack(f"<{len(raw) // size}{_PACKED[datatype]}", raw))
    values, at = [], 0
    while at < len(raw):
        (length,) = struct.unpack_from("<I", raw, at)
        values.append(raw[at + 4 : at + 4 + length])
        at += 4 + length
    return values


def _raw(datatype: str, values: list[Any]) -> bytes:
    if datatype == "BYTES":
        return b"".join(struct.pack("<I", len(value)) + value for value in values)
    return struct.pack(f"<{len(values)}{_PACKED[datatype]}", *values)


def metrics_text(model: str = "tensorrt_llm", /, **figures: float) -> str:
    """Triton's metrics with these figures of the backend, by the kinds in their labels."""
    requests = ("waiting", "context", "scheduled", "max", "active")
    lines = ["# HELP nv_gpu_utilization GPU utilization rate", 'nv_gpu_utilization{gpu_uuid="GPU-1"} 0.5']
    for kind, value in figures.items():
        family = "nv_trt_llm_request_metrics" if kind in requests else "nv_trt_llm_kv_cache_block_metrics"
        label = "request_type" if kind in requests else "kv_cache_block_type"
        lines.append(f'{family}{{model="{model}",version="1",{label}="{kind}"}} {value}')
    return "\n".join(lines) + "\n"


@contextlib.asynccontextmanager
async def serving_metrics(answers: list[str], status: str = "200 OK") -> AsyncIterator[str]:
    """The URL of metrics that are these texts in turn, the last one for ever."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            await reader.readuntil(b"\r\n\r\n")
            body = (answers.pop(0) if len(answers) > 1 else answers[0]).encode()
            writer.write(
                f"HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
            )
            await writer.drain()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"
