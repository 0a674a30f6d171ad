"""The transport to a model behind Triton: one gRPC stream of KServe's protocol per request to TensorRT-LLM's backend.

The models' tensors are defined in TensorRT-LLM's triton_backend/all_models; the protocol in Triton's
docs/protocol/extension_*.md and docs/user_guide/decoupled_models.md.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import grpc.aio

from observability.redacted_words import redacted_words
from observability.tracing.trace_context import trace_headers
from protos import triton_codec as codec
from protos.errors import PenstockError, ReplicaUnavailable
from protos.pem import PemError
from protos.protocol_error import ProtocolError
from protos.types import Failure, Finish, FinishReason, ReplicaInfo, Sampling, Submit
from routing.health.probe import PROBE, Probe, TokenProbe
from routing.transports.counted_transport import CheckResult, Unreachable
from routing.transports.mailbox import Mailbox
from routing.transports.mux import describe
from routing.transports.polled_transport import PolledConnection
from routing.transports.replica_connection import TransportContext
from routing.transports.replica_spec import ReplicaSpec
from routing.transports.replica_tls import RenewedChannel, readable_problem
from routing.transports.triton.pieces import Pieces
from routing.transports.triton.settings import TritonSettings
from routing.transports.triton.triton_answer import Answer, error_of
from routing.transports.triton.triton_metrics import EngineState, TritonMetrics
from routing.transports.triton.triton_requests import TritonModel

log = logging.getLogger(__name__)

#: Seconds for which a stream may stay open after its answer is complete.
_END_SECONDS: Final = 5.0
_OPTIONS: Final = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    # Triton closes connections that ping often while it sends nothing; its answers to health checks come in between.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.enable_http_proxy", 0),
)
#: Codes about the connection or the server, not about the request.
_LOST: Final = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.NOT_FOUND,
)
#: A text that any vocabulary covers; one token of an answer need not be a character.
_PROBE_TEXT: Final = "Hello"
_PROBE_TOKENS: Final = 8

_Call = Any  # grpc.aio.StreamStreamCall[bytes, bytes]; the stubs' generic parameters do not fit raw bytes


class TritonConnection(PolledConnection):
    """The transport to one model on one Triton server. `spec.settings` are TritonSettings."""

    def __init__(self, spec: ReplicaSpec, context: TransportContext) -> None:
        super().__init__(spec, context)
        assert isinstance(spec.settings, TritonSettings), "triton replicas need their settings"
        self._settings = spec.settings
        self._channel: RenewedChannel | None = None
        self._metrics: TritonMetrics | None = None
        self._model: TritonModel | None = None
        self._server = ""
        #: Whether the model's description has been read since it last became reachable.
        self._described = False
        self._block_tokens = 0

    async def aclose(self) -> None:
        await super().aclose()
        if self._channel is not None:
            await self._channel.aclose()
        if self._metrics is not None:
            await self._metrics.aclose()

    def _ask(self) -> Probe | None:
        if not self._settings.options.template.takes_text:
            return super()._ask()
        assert self._settings.codec is not None, "a model that takes text needs its tokenizer here"
        prompt = self._settings.codec.encode(_PROBE_TEXT, first=True)
        submit = Submit(PROBE.request_id, prompt, _PROBE_TOKENS, Sampling(temperature=0.0))
        try:
            return TokenProbe(self.open(submit), text=True)
        except ReplicaUnavailable:
            return None

    async def _check(self) -> CheckResult:
        described, self._described = self._described, False
        try:
            if self._channel is None:
                self._channel = RenewedChannel(self.spec.address, self.spec.tls, _OPTIONS)
            await self._check_ready()
            if not described:
                await self._describe()
        except PemError as error:
            raise Unreachable(str(error), refused=True) from None
        except ProtocolError as error:
            raise Unreachable(f"no Triton: {error}", refused=True) from None
        except grpc.aio.AioRpcError as error:
            if error.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.NOT_FOUND):
                raise Unreachable(f"no Triton, or no such model there: {error.details()}", refused=True) from None
            raise Unreachable(readable_problem(describe(error), self.spec.address, self.spec.tls)) from None
        self._described = True
        return self._sighting(await self._scraped_state())

    async def _check_ready(self) -> None:
        name = self._settings.options.model
        if not codec.decode_server_ready(await self._call(codec.SERVER_READY, codec.encode_server_ready())):
            raise Unreachable("the server is not ready")
        if not codec.decode_model_ready(await self._call(codec.MODEL_READY, codec.encode_model_ready(name))):
            raise Unreachable(f"model {name} is not ready, or not there", refused=True)

    async def _describe(self) -> None:
        name = self._settings.options.model
        server = await self._call(codec.SERVER_METADATA, codec.encode_server_metadata())
        metadata = await self._call(codec.MODEL_METADATA, codec.encode_model_metadata(name))
        config = await self._call(codec.MODEL_CONFIG, codec.encode_model_config(name))
        model = TritonModel(self._settings, codec.decode_model_metadata(metadata), codec.decode_model_config(config))
        if model.problem:
            raise Unreachable(model.problem, refused=True)
        self._server, self._model = codec.decode_server_metadata(server), model

    async def _call(self, method: str, request: bytes) -> bytes:
        assert self._channel is not None, "called by a look"
        with self._channel.borrowed() as channel:
            call: Any = channel.unary_unary(method)
            answer: bytes = await call(request)
        return answer

    async def _scraped_state(self) -> EngineState | None:
        if not self._settings.metrics_url:
            return None
        if self._metrics is None:
            self._metrics = TritonMetrics(self._settings.metrics_url, self._settings.options.model, self.spec.id)
        return await self._metrics.look()

    def _sighting(self, state: EngineState | None) -> CheckResult:
        spec, model = self.spec, self._model
        assert model is not None, "it has just been described"
        if state is not None:
            self._block_tokens = state.block_tokens
        info = ReplicaInfo(
            model=spec.model,
            engine=spec.engine,
            fingerprint=self._server,
            shape=spec.shape,
            role=spec.role,
            max_batch_size=self._settings.options.max_in_flight or (state.max_requests if state is not None else 0),
            max_sequence_tokens=0,
            kv_block_tokens=self._block_tokens,
            kv_blocks_total=state.load.kv_blocks_total if state is not None else 0,
            features=model.features,
        )
        return CheckResult(info, state.load if state is not None else None)

    def _send(self, submit: Submit, mailbox: Mailbox) -> Callable[[], None]:
        task = asyncio.create_task(self._exchange(submit, mailbox))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

        def cancel() -> None:
            task.cancel()

        return cancel

    async def _exchange(self, submit: Submit, mailbox: Mailbox) -> None:
        """Run one request to its end, whatever that is."""
        try:
            await self._stream(submit, mailbox)
        except grpc.aio.AioRpcError as error:
            if error.code() in _LOST:
                self._lost(mailbox, _lost(describe(error)))
            else:
                told = f"{error.code().name}: {redacted_words(error.details() or '')}"
                self._fail(mailbox, Failure("engine_error", told))
        except (ProtocolError, asyncio.InvalidStateError, PemError) as error:
            # InvalidStateError: the call had ended before the request was written.
            self._lost(mailbox, _lost(str(error)))
        except Exception:
            log.exception("replica %s at %s: request %s", self.spec.id, self.spec.address, submit.request_id)
            self._lost(mailbox, _lost("the transport failed"))

    async def _stream(self, submit: Submit, mailbox: Mailbox) -> None:
        model, channels = self._model, self._channel
        assert model is not None and channels is not None, "nothing is sent to what has not been found"
        refusal = model.refusal(submit)
        if refusal is not None:
            self._fail(mailbox, refusal)
            return
        request = codec.encode_infer(model.name, submit.request_id, model.inputs(submit), model.outputs)
        text = self._settings.codec if model.kind.takes_text else None
        pieces = Pieces(text, cumulative=model.cumulative) if text else None
        answer = Answer(submit, self._block_tokens, pieces, model.ends(submit))
        with channels.borrowed() as channel:
            # Triton reads the trace context from the metadata (docs/user_guide/trace.md).
            metadata = tuple(trace_headers(submit.trace).items()) or None
            call: _Call = channel.stream_stream(codec.MODEL_STREAM_INFER)(metadata=metadata)
            try:
                await call.write(request)
                await call.done_writing()
                await self._read(call, answer, mailbox)
            finally:
                if not call.done():
                    call.cancel()

    async def _read(self, call: _Call, answer: Answer, mailbox: Mailbox) -> None:
        while (data := await call.read()) is not grpc.aio.EOF:
            if self._deal(codec.decode_reply(data), answer, mailbox):
                # The answer is complete, however the stream ends now.
                with contextlib.suppress(TimeoutError, grpc.aio.AioRpcError):
                    async with asyncio.timeout(_END_SECONDS):
                        await call.read()
                return
        self._lost(mailbox, _lost("the stream ended before the answer's end"))

    def _deal(self, reply: codec.Reply, answer: Answer, mailbox: Mailbox) -> bool:
        """Deliver a message's contents; return whether the answer is complete."""
        self._alive()
        if reply.error:
            error = error_of(reply.error)
            if isinstance(error, Failure):
                self._fail(mailbox, error)
            else:
                self._lost(mailbox, error)
            return True
        self._put(answer.take(reply), answer, mailbox)
        if reply.final:
            tokens, finish = answer.end()
            self._put(tokens, answer, mailbox)
            self._started(mailbox, answer.cached)
            mailbox.finish(-mailbox.base, finish)
        return reply.final

    def _put(self, tokens: Sequence[int], answer: Answer, mailbox: Mailbox) -> None:
        if tokens:
            self._started(mailbox, answer.cached)
            mailbox.sink.put((-mailbox.base, tokens, None, None))

    def _fail(self, mailbox: Mailbox, failure: Failure) -> None:
        finish = Finish(FinishReason.ERROR, failure=failure)
        for index in range(mailbox.sequences):
            mailbox.finish(index - mailbox.base, finish)


def _lost(detail: str) -> PenstockError:
    error = ReplicaUnavailable("The connection to the replica was lost.")
    error.detail = detail
    return error
