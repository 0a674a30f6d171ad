"""TensorRT-LLM's own gRPC service in front of any engine, for clients and routers made for it.

It refuses requests with features that the stock server silently ignores. Stop strings are the exception: replicas know
no text, and a client that sends token ids must match them in the text anyway, where they may begin or end within a
token.
"""

import asyncio
import time
from typing import Any, Final, NoReturn, Protocol

import grpc.aio
import msgspec

from observability.tracing.trace_context import received_trace
from protos.protocol_error import ProtocolError
from protos.stock import stock_codec, stock_kv_codec
from protos.stock import stock_service_codec as codec
from protos.types import Finish, FinishReason, Load, ReplicaInfo, Submit, TokenLogprobs, Work
from replicas.consumer import Consumer
from replicas.kv_relay import KvRelay

_Context = Any  # grpc.aio.ServicerContext[bytes, bytes]; the stubs' generic parameters do not fit raw bytes

#: Most sequences of one request; each costs memory before the engine has checked it.
MAX_SEQUENCES: Final = 1024
#: Failure codes -> the status that the stock server would answer with.
_STATUS: Final = {
    "context_length_exceeded": grpc.StatusCode.INVALID_ARGUMENT,
    "unsupported_parameter": grpc.StatusCode.INVALID_ARGUMENT,
    "draining": grpc.StatusCode.UNAVAILABLE,
    "moved": grpc.StatusCode.UNAVAILABLE,
    "engine_error": grpc.StatusCode.INTERNAL,
}


class Host(Protocol):
    """The replica behind the service."""

    @property
    def info(self) -> ReplicaInfo:
        """The engine's own description."""
        ...

    @property
    def condition(self) -> str:
        """The reason why it takes no requests, or `OK`."""
        ...

    @property
    def relay(self) -> KvRelay:
        """The relay of the engine's KV cache events."""
        ...

    def run(self, consumer: Consumer, first_stream: int, submit: Submit) -> int:
        """Submit a request, whose streams go to `consumer` numbered from `first_stream`; return its handle."""
        ...

    def drop(self, handle: int) -> None:
        """Cancel a request at the engine. Unknown handles are ignored."""
        ...


class _Call:
    """The `Consumer` of one Generate call and its own `Tray`: sequences are its streams, from 0 on.

    All tokens are kept for the final message, which repeats them; a counter tells what was sent. So a client that does
    not read costs no more than its answer.
    """

    def __init__(self, submit: Submit) -> None:
        n = submit.sampling.n
        self.submit = submit
        self.handle = 0
        self.cached_tokens = 0
        self.tokens: list[list[int]] = [[] for _ in range(n)]
        self.logprobs: list[list[TokenLogprobs]] = [[] for _ in range(n)]
        self.finishes: dict[int, Finish] = {}
        self._sent = [0] * n
        self._wake = asyncio.Event()

    @property
    def outbox(self) -> "_Call":
        return self

    def add_tokens(self, stream_id: int, token_ids: list[int], logprobs: list[TokenLogprobs] | None) -> None:
        self.tokens[stream_id] += token_ids
        if logprobs is not None:
            self.logprobs[stream_id] += logprobs

    def add_start(self, stream_id: int, cached_tokens: int) -> None:
        self.cached_tokens = cached_tokens

    def add_finish(self, stream_id: int, finish: Finish) -> None:
        self.finishes[stream_id] = finish

    def closed(self, stream_id: int) -> None:
        """Wake the writer."""
        self._wake.set()

    def request_ended(self, first_stream: int) -> None:
        """Do nothing: the call ends by itself."""

    def report(self, load: Load, work: Work | None) -> None:
        """Wake the writer."""
        self._wake.set()

    def abort(self) -> None:
        """Cancel the unfinished sequences and wake the writer."""
        for index, tokens in enumerate(self.tokens):
            finish = Finish(FinishReason.CANCELLED, len(self.submit.prompt_ids), self.cached_tokens, len(tokens))
            self.finishes.setdefault(index, finish)
        self._wake.set()

    @property
    def done(self) -> bool:
        """Whether every sequence has ended."""
        return len(self.finishes) == len(self.tokens)

    async def more(self) -> None:
        """Wait for the next step with output."""
        await self._wake.wait()
        self._wake.clear()

    def chunks(self) -> list[bytes]:
        """Return the unsent output, one message per sequence."""
        messages = []
        for index, tokens in enumerate(self.tokens):
            sent = self._sent[index]
            if len(tokens) > sent:
                self._sent[index] = len(tokens)
                logprobs = self.logprobs[index][sent:] or None
                messages.append(
                    codec.encode_chunk(
                        self.submit,
                        index,
                        tokens[sent:],
                        logprobs,
                        completion_tokens=len(tokens),
                        cached_tokens=self.cached_tokens,
                    )
                )
        return messages


class StockService:
    """The gRPC handlers of one replica's service."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._calls: dict[str, _Call] = {}
        self._answering: dict[asyncio.Task[Any], _Call] = {}

    async def flush(self, seconds: float) -> None:
        """Wait at most `seconds` until finished answers are sent to their clients."""
        ended = [task for task, call in self._answering.items() if call.done]
        if ended:
            await asyncio.wait(ended, timeout=seconds)

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return the service for a server of raw bytes. Other methods, such as Embed, are answered UNIMPLEMENTED."""
        stream: Any = grpc.unary_stream_rpc_method_handler
        unary: Any = grpc.unary_unary_rpc_method_handler
        return grpc.method_handlers_generic_handler(
            stock_codec.SERVICE,
            {
                "Generate": stream(self._generate),
                "Abort": unary(self._abort),
                "HealthCheck": unary(self._health),
                "GetModelInfo": unary(self._model_info),
                "GetServerInfo": unary(self._server_info),
                "SubscribeKvEvents": stream(self._subscribe),
            },
        )

    async def _generate(self, data: bytes, context: _Context) -> None:
        try:
            ask = codec.decode_generate(data)
        except (ProtocolError, codec.Refused) as error:
            await _refuse(context, str(error))
        if not 1 <= ask.submit.sampling.n <= MAX_SEQUENCES:
            await _refuse(context, f"a request has 1 to {MAX_SEQUENCES} sequences, not {ask.submit.sampling.n}")
        call = _Call(ask.submit)
        request_id = ask.submit.request_id
        call.handle = self._host.run(call, 0, _traced(ask.submit, context))
        self._calls[request_id] = call  # of two with one id, Abort means the later one, as in the stock server
        task = asyncio.current_task()
        assert task is not None
        self._answering[task] = call
        try:
            await self._answer(call, ask, context)
        finally:
            del self._answering[task]
            self._host.drop(call.handle)
            if self._calls.get(request_id) is call:
                del self._calls[request_id]

    async def _answer(self, call: _Call, ask: codec.GenerateCall, context: _Context) -> None:
        done = False
        while not done:
            await call.more()
            # Read before the writing, during which the rest may come: that takes another round.
            done = call.done
            for message in call.chunks() if ask.streaming else ():
                await context.write(message)
        failure = next((finish.failure for finish in call.finishes.values() if finish.failure is not None), None)
        if failure is not None:
            await context.abort(_STATUS.get(failure.code, grpc.StatusCode.INTERNAL), failure.message)
        ended_at = time.time() if ask.perf_metrics else None
        for index, tokens in enumerate(call.tokens):
            logprobs = call.logprobs[index] or None
            await context.write(
                codec.encode_complete(ask.submit, index, tokens, logprobs, call.finishes[index], ended_at=ended_at)
            )

    async def _abort(self, data: bytes, context: _Context) -> bytes:
        try:
            request_id = codec.decode_abort(data)
        except ProtocolError as error:
            await _refuse(context, str(error))
        call = self._calls.pop(request_id, None)
        if call is not None:
            self._host.drop(call.handle)
            call.abort()
        return codec.encode_aborted(request_id, found=call is not None)

    async def _health(self, data: bytes, context: _Context) -> bytes:
        return codec.encode_health(self._host.condition)

    async def _model_info(self, data: bytes, context: _Context) -> bytes:
        return codec.encode_model_info(self._host.info)

    async def _server_info(self, data: bytes, context: _Context) -> bytes:
        return codec.encode_server_info(self._host.info)

    async def _subscribe(self, data: bytes, context: _Context) -> None:
        try:
            start = stock_kv_codec.decode_subscribe(data)
        except ProtocolError as error:
            await _refuse(context, str(error))
        # Routers time out a subscription without early headers, and the first event may come late.
        await context.send_initial_metadata(())
        relay = self._host.relay
        subscription = relay.subscribe(start)
        try:
            while True:
                for message in await subscription.read():
                    await context.write(message)
        finally:
            relay.unsubscribe(subscription)


def _traced(submit: Submit, context: _Context) -> Submit:
    """Return the request with the trace context of its metadata."""
    told = dict(context.invocation_metadata() or ())
    if "traceparent" not in told:
        return submit
    return msgspec.structs.replace(submit, trace=received_trace(told["traceparent"], told.get("tracestate", "")))


async def _refuse(context: _Context, why: str) -> NoReturn:
    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, why)
    raise AssertionError("abort raises")
