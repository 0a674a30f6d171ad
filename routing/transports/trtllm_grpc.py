"""The transport to a stock `trtllm-serve --grpc`: each request is a call of TensorRT-LLM's own gRPC service.

The server says nothing of its load, passes over adapters, cache salts and hand-offs, and says nothing of several
answers' ends before the last of them. Stop strings are looked for by the gateway, in the text.
"""

import asyncio
import logging
from collections.abc import Callable
from itertools import count
from typing import Final
from uuid import uuid4

from observability.redacted_words import redacted_words
from observability.tracing.trace_context import trace_headers
from protos import stock_codec as codec
from protos.errors import InternalError, PenstockError, ReplicaUnavailable
from protos.features import Feature
from protos.pem import PemError
from protos.protocol_error import ProtocolError
from protos.types import Failure, Finish, FinishReason, ReplicaInfo, Role, Shape, Submit
from routing.transports.counted_transport import CountedConnection, Sighting, Unreachable
from routing.transports.http2.grpc_call import Call
from routing.transports.http2.grpc_channel import CallFailed, Channel
from routing.transports.http2.grpc_status import Status
from routing.transports.http2.http2_connection import Full
from routing.transports.mailbox import Mailbox
from routing.transports.replica_connection import Surroundings
from routing.transports.replica_spec import ReplicaSpec

log = logging.getLogger(__name__)

#: How long an Abort may take, and how long a call may after its answer's end.
ABORT_SECONDS: Final = 2.0
END_SECONDS: Final = 5.0
#: What the server ignores, whatever the configuration trusts it with.
IGNORED: Final = Feature.LORA | Feature.LOGIT_BIAS
#: A name in GetModelInfo's features -> what it says.
_FEATURES: Final = {"guided_decoding": Feature.GUIDED}
#: What only a peer answers that is no such server; its other failures may pass.
_ANOTHER: Final = (Status.UNIMPLEMENTED, Status.UNAUTHENTICATED, Status.PERMISSION_DENIED, Status.UNKNOWN)
#: Statuses of requests that are at fault, and of servers that cannot be reached or do not answer as such.
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
#: What replicas of ours say, with UNAVAILABLE.
_DRAINING: Final = "draining"
#: The engine's words for a request that is too long.
_TOO_LONG: Final = ("max_num_tokens", "max_seq_len", "max_input_len", "prompt length", "too long")


class TrtllmConnection(CountedConnection):
    """One stock server."""

    def __init__(self, spec: ReplicaSpec, around: Surroundings) -> None:
        super().__init__(spec, around)
        self._channel: Channel | None = None
        # The server knows requests by their ids alone, so that two attempts at one must not share theirs.
        self._ids = f"{uuid4().hex[:12]}-"
        self._numbers = count(1)
        self._aborts: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """End every call, and tell the server to."""
        self._closing = True
        self.fail_streams(ReplicaUnavailable("The connection to the replica was closed."))
        if self._aborts:
            await asyncio.wait(self._aborts, timeout=ABORT_SECONDS)
        await super().aclose()
        if self._channel is not None:
            await self._channel.aclose()

    async def _look(self) -> Sighting:
        try:
            if self._channel is None:
                self._channel = Channel(self.spec.address, self.spec.tls, codec.MAX_MESSAGE_BYTES)
            channel = self._channel
            anew = await channel.connect()
            status = codec.decode_health(await channel.ask(codec.HEALTH))
            if status != codec.HEALTHY:
                raise Unreachable(f"it says of itself: {status[:200]}")
            if self.info is not None and not anew:
                return Sighting(self.info)
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
            return Sighting(self.info)  # our own calls, aborts among them, are all that it takes, so it is there
        except (ConnectionError, PemError) as error:
            raise Unreachable(str(error)) from None
        return Sighting(_info(self.spec, model, server))

    def _send(self, submit: Submit, mailbox: Mailbox) -> Callable[[], None]:
        request_id = f"{submit.request_id}.{self._ids}{next(self._numbers)}"
        request = _Request(self, submit, mailbox, request_id)
        try:
            message = codec.encode_generate(submit, request_id)
        except (TypeError, ValueError):
            log.exception("request %s cannot be sent", submit.request_id)
            return _soon(request.given_up, InternalError("The gateway failed on this request."))
        if len(message) > codec.MAX_MESSAGE_BYTES:
            problem = f"{len(message)} bytes, where the server takes {codec.MAX_MESSAGE_BYTES}"
            return _soon(request.fail, "context_length_exceeded", problem)
        assert self._channel is not None, "it has been looked at"
        try:
            request.call = self._channel.start(codec.GENERATE, message, request, trace_headers(submit.trace))
        except Full as error:
            return _soon(request.ended, Status.RESOURCE_EXHAUSTED, str(error))
        except ConnectionError as error:
            return _soon(request.ended, Status.UNAVAILABLE, str(error))
        return request.cancel

    def given_up(self, mailbox: Mailbox, error: PenstockError) -> None:
        """A request has come to nothing."""
        self._lost(mailbox, error)

    def begun(self, mailbox: Mailbox, cached_tokens: int) -> None:
        """The first tokens of a request have come, so that its prompt has been computed."""
        self._started(mailbox, cached_tokens)

    def refuses(self, problem: str) -> None:
        """It takes no more calls: nothing is sent there until a look finds it well."""
        if self.connected:
            self._missed(Unreachable(problem))

    def abort(self, request_id: str) -> None:
        """Tell the server to end a request; whether it has heard of it does not matter."""
        task = asyncio.create_task(self._tell_abort(request_id))
        self._aborts.add(task)
        task.add_done_callback(self._aborts.discard)

    async def _tell_abort(self, request_id: str) -> None:
        assert self._channel is not None, "there was a request"
        try:
            async with asyncio.timeout(ABORT_SECONDS):
                await self._channel.ask(codec.ABORT, codec.encode_abort(request_id))
        except (CallFailed, ConnectionError, TimeoutError) as error:
            log.debug("replica %s did not hear that %s is over: %r", self.spec.id, request_id, error)


def _soon(tell: Callable[..., None], *what: object) -> Callable[[], None]:
    """Say it once the caller, who does not expect it at once, has gone on; gives what keeps it from being said."""
    return asyncio.get_running_loop().call_soon(tell, *what).cancel


class _Request:
    """One Generate call's `Handler`, from its sending to its end."""

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
        """Have the server end it; nothing more comes."""
        self._over = True
        if self.call is not None and self.call.open:
            self.call.cancel()
            self._transport.abort(self._request_id)

    def received(self, message: bytes) -> None:
        """A part of the answer: called once per token."""
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
                    # The server has nothing more to say, and this one does not wait for ever to hear that.
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
        """Nothing more comes."""
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
        """It has come to nothing."""
        self._over = True
        self._transport.given_up(self._mailbox, error)

    def fail(self, code: str, message: str) -> None:
        """What has not ended fails, with a code of protos/errors.py."""
        self._over = True
        finish = Finish(FinishReason.ERROR, len(self._submit.prompt_ids), failure=Failure(code, message))
        mailbox = self._mailbox
        for index in sorted(self._reader.left):
            if not mailbox.closed:
                mailbox.finish(index - mailbox.base, finish)


def _info(spec: ReplicaSpec, model: codec.ModelInfo, server: codec.ServerInfo) -> ReplicaInfo:
    """What a server says, as the configuration names it: its model's name there is a path or of its operator's choice.

    The degree of expert parallelism is not told.
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
