"""The transport to a stock `trtllm-serve --grpc`: each request is one call of TensorRT-LLM's own gRPC service.

The server does not report its load, ignores adapters, cache salts and handoffs, and reports the ends of several
answers only with the last one. The gateway matches stop strings in the text.
"""

import asyncio
import logging
from collections.abc import Callable
from itertools import count
from typing import Final
from uuid import uuid4

from observability.redacted_words import redacted_words
from observability.tracing.trace_context import trace_headers
from protos.errors import InternalError, PenstockError, ReplicaUnavailable
from protos.features import Feature
from protos.pem import PemError
from protos.protocol_error import ProtocolError
from protos.stock import stock_codec as codec
from protos.types import Failure, Finish, FinishReason, ReplicaInfo, Role, Shape, Submit
from routing.transports.counted_transport import CheckResult, Unreachable
from routing.transports.http2.grpc_call import Call
from routing.transports.http2.grpc_channel import CallFailed, Channel
from routing.transports.http2.grpc_status import Status
from routing.transports.http2.http2_connection import Full
from routing.transports.mailbox import Mailbox
from routing.transports.polled_transport import PolledConnection
from routing.transports.replica_connection import TransportContext
from routing.transports.replica_spec import ReplicaSpec

log = logging.getLogger(__name__)

#: Timeouts in seconds: of an Abort, and of a call after its answer's end.
ABORT_SECONDS: Final = 2.0
END_SECONDS: Final = 5.0
#: Features that the server ignores, whatever the configuration assumes.
IGNORED: Final = Feature.LORA | Feature.LOGIT_BIAS
#: Names in GetModelInfo's features.
_FEATURES: Final = {"guided_decoding": Feature.GUIDED}
#: Statuses that only another kind of server answers; other failures may be temporary.
_ANOTHER: Final = (Status.UNIMPLEMENTED, Status.UNAUTHENTICATED, Status.PERMISSION_DENIED, Status.UNKNOWN)
#: Statuses of invalid requests, and of servers that are unreachable or not of this kind.
_AT_FAULT: Final = (Status.INVALID_ARGUMENT, Status.OUT_OF_RANGE)
_GONE: Final = (
    Status.UNAVAILABLE,
    Status.CANCELLED,
    Status.ABORTED,
    Status.DEADLINE_EXCEEDED,
    Status.RESOURCE_EXHAUSTED,
    Status.UNIMPLEMENTED,
    Status.UNAUTHENTICATED,
    Status.PERMISSION_DENIED,
)
#: Details of UNAVAILABLE from Penstock's own replicas.
_DRAINING: Final = "draining"
#: Phrases in the engine's messages for a request that is too long.
_TOO_LONG: Final = ("max_num_tokens", "max_seq_len", "max_input_len", "prompt length", "too long")


class TrtllmConnection(PolledConnection):
    """The transport to one stock server."""

    def __init__(self, spec: ReplicaSpec, context: TransportContext) -> None:
        super().__init__(spec, context)
        self._channel: Channel | None = None
        # The server identifies requests by their ids alone, so two attempts at one request need different ids.
        self._ids = f"{uuid4().hex[:12]}-"
        self._numbers = count(1)
        self._aborts: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """Cancel every call and abort it at the server."""
        self._closing = True
        self.fail_streams(ReplicaUnavailable("The connection to the replica was closed."))
        if self._aborts:
            await asyncio.wait(self._aborts, timeout=ABORT_SECONDS)
        await super().aclose()
        if self._channel is not None:
            await self._channel.aclose()

    async def _check(self) -> CheckResult:
        try:
            if self._channel is None:
                self._channel = Channel(self.spec.address, self.spec.tls, codec.MAX_MESSAGE_BYTES)
            channel = self._channel
            anew = await channel.connect()
            status = codec.decode_health(await channel.ask(codec.HEALTH))
            if status != codec.HEALTHY:
                raise Unreachable(f"it says of itself: {status[:200]}")
            if self.info is not None and not anew:
                return CheckResult(self.info)
            model = codec.decode_model_info(await channel.ask(codec.MODEL_INFO))
            server = codec.decode_server_info(await channel.ask(codec.SERVER_INFO))
        except CallFailed as error:
            refused = error.status in _ANOTHER
            raise Unreachable(f"no TensorRT-LLM server: {error}" if refused else str(error), refused=refused) from None
        except ProtocolError as error:
            raise Unreachable(f"another protocol is spoken there: {error}", refused=True) from None
        except Full as error:
            if self.info is None or not error.calls:
                raise Unreachable(str(error)) from None
            return CheckResult(self.info)  # this worker's own calls, aborts included, fill its limit, so it is alive
        except (ConnectionError, PemError) as error:
            raise Unreachable(str(error)) from None
        return CheckResult(_info(self.spec, model, server))

    def _send(self, submit: Submit, mailbox: Mailbox) -> Callable[[], None]:
        request_id = f"{submit.request_id}.{self._ids}{next(self._numbers)}"
        request = _Request(self, submit, mailbox, request_id)
        try:
            message = codec.encode_generate(submit, request_id)
        except (TypeError, ValueError):
            log.exception("request %s cannot be sent", submit.request_id)
            return _call_soon(request.given_up, InternalError("The gateway failed on this request."))
        if len(message) > codec.MAX_MESSAGE_BYTES:
            problem = f"{len(message)} bytes, where the server takes {codec.MAX_MESSAGE_BYTES}"
            return _call_soon(request.fail, "context_length_exceeded", problem)
        assert self._channel is not None, "it has been looked at"
        try:
            request.call = self._channel.start(codec.GENERATE, message, request, trace_headers(submit.trace))
        except Full as error:
            return _call_soon(request.ended, Status.RESOURCE_EXHAUSTED, str(error))
        except ConnectionError as error:
            return _call_soon(request.ended, Status.UNAVAILABLE, str(error))
        return request.cancel

    def given_up(self, mailbox: Mailbox, error: PenstockError) -> None:
        """Fail a request."""
        self._lost(mailbox, error)

    def begun(self, mailbox: Mailbox, cached_tokens: int) -> None:
        """Note the first tokens of a request: its prompt has been computed."""
        self._started(mailbox, cached_tokens)

    def refuses(self, problem: str) -> None:
        """Note that it takes no more calls: nothing is sent there until a health check succeeds."""
        if self.connected:
            self._check_failed(Unreachable(problem))

    def abort(self, request_id: str) -> None:
        """Abort a request at the server, whether or not the server knows it."""
        task = asyncio.create_task(self._send_abort(request_id))
        self._aborts.add(task)
        task.add_done_callback(self._aborts.discard)

    async def _send_abort(self, request_id: str) -> None:
        assert self._channel is not None, "there was a request"
        try:
            async with asyncio.timeout(ABORT_SECONDS):
                await self._channel.ask(codec.ABORT, codec.encode_abort(request_id))
        except (CallFailed, ConnectionError, TimeoutError) as error:
            log.debug("replica %s did not hear that %s is over: %r", self.spec.id, request_id, error)


def _call_soon(tell: Callable[..., None], *what: object) -> Callable[[], None]:
    """Schedule a callback for after the caller has returned; return the function that cancels it."""
    return asyncio.get_running_loop().call_soon(tell, *what).cancel


class _Request:
    """The `Handler` of one Generate call."""

    __slots__ = (
        "_mailbox",
        "_over",
        "_progress",
        "_reader",
        "_request_id",
        "_started",
        "_submit",
        "_timer",
        "_transport",
        "call",
    )

    def __init__(self, transport: TrtllmConnection, submit: Submit, mailbox: Mailbox, request_id: str) -> None:
        self.call: Call | None = None
        self._transport = transport
        self._mailbox = mailbox
        self._over = False
        self._progress = transport.health.progress
        self._reader = codec.AnswerReader(submit)
        self._request_id = request_id
        self._started = False
        self._submit = submit
        self._timer: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        """Cancel the call and abort it at the server; no more callbacks follow."""
        self._over = True
        if self.call is not None and self.call.open:
            self.call.cancel()
            self._transport.abort(self._request_id)

    def received(self, message: bytes) -> None:
        """Take a part of the answer; called once per token."""
        if self._over:
            return
        mailbox = self._mailbox
        self._progress.renew()
        try:
            part = self._reader.read(message)
            if part.token_ids:
                if not self._started:
                    self._started = True
                    self._transport.begun(mailbox, part.cached_tokens)
                mailbox.sink.put((part.index - mailbox.base, part.token_ids, part.logprobs, None))
            if part.finish is not None:
                if not self._reader.left and self.call is not None:
                    self._over = True
                    # The answer is complete; do not wait forever for the call's end.
                    self._timer = asyncio.get_running_loop().call_later(END_SECONDS, self.call.cancel)
                mailbox.finish(part.index - mailbox.base, part.finish)
        except ProtocolError as error:
            self._reset()
            self.fail("engine_error", f"the server broke its protocol: {error}")
        except Exception:
            log.exception("the answer to request %s cannot be dealt out", self._submit.request_id)
            self._reset()
            self.given_up(InternalError("The gateway failed on this request."))

    def ended(self, status: Status, details: str) -> None:
        """Take the call's end."""
        if self._timer is not None:
            self._timer.cancel()
        if self._over:
            return
        # The server's words on a failed request may quote the prompt; those on a lost connection are the transport's.
        problem = f"{status.name}: {details if status in _GONE else redacted_words(details)}"
        if status is Status.OK:
            self.fail("engine_error", "the answer has stopped without its end")
        elif status in _AT_FAULT:
            too_long = any(sign in details.lower() for sign in _TOO_LONG)
            self.fail("context_length_exceeded" if too_long else "unsupported_parameter", problem)
        elif status in _GONE and "larger than max" not in details:
            if status is Status.UNAVAILABLE:
                self._transport.refuses(problem)
            if _DRAINING in details:
                self.fail("draining", problem)
            else:
                lost = ReplicaUnavailable("The connection to the replica was lost.")
                lost.detail = problem
                self.given_up(lost)
        else:
            self.fail("engine_error", problem)

    def _reset(self) -> None:
        if self.call is not None:
            self.call.cancel()

    def given_up(self, error: PenstockError) -> None:
        """Fail the request."""
        self._over = True
        self._transport.given_up(self._mailbox, error)

    def fail(self, code: str, message: str) -> None:
        """Fail the unfinished sequences, with a code of protos/failures.py."""
        self._over = True
        finish = Finish(FinishReason.ERROR, len(self._submit.prompt_ids), failure=Failure(code, message))
        mailbox = self._mailbox
        for index in sorted(self._reader.left):
            if not mailbox.closed:
                mailbox.finish(index - mailbox.base, finish)


def _info(spec: ReplicaSpec, model: codec.ModelInfo, server: codec.ServerInfo) -> ReplicaInfo:
    """Return a server's description under the configured model name: its own name is a path or its operator's choice.

    The server does not report the degree of expert parallelism.
    """
    features = spec.features
    for name, feature in _FEATURES.items():
        if name in model.features:
            features |= feature
    return ReplicaInfo(
        model=spec.model,
        engine=spec.engine,
        fingerprint=f"trtllm-{server.version}-{model.name}",
        shape=Shape(tp=server.tp, ep=spec.shape.ep, pp=server.pp),
        role=Role.BOTH,
        max_batch_size=model.max_batch_size,
        max_sequence_tokens=model.max_sequence_tokens,
        kv_block_tokens=0,
        kv_blocks_total=0,
        features=features & ~IGNORED,
    )
