"""The gateway's side of the session protocol: multiplexes many requests over few gRPC streams.

A `Session` is one bidirectional stream on a channel of its own. Submits and cancels made in one event-loop tick
leave as one message; each step that arrives is distributed to the mailboxes of its requests.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import grpc.aio

from protos import codec
from protos.errors import InternalError, PenstockError, ReplicaUnavailable
from protos.protocol_error import ProtocolError
from protos.reshape import Membership
from protos.types import PROTOCOL_VERSION, Submit
from routing.contracts.transport import Receiver
from routing.health.patience import Patience, exhausted
from routing.transports.mailbox import Mailbox
from routing.transports.replica_tls import TlsFiles, open_channel
from routing.transports.unreported import Unreported

log = logging.getLogger(__name__)

#: A replica sends something at least every 0.5 s (replicas/replica_server.py); this much silence means it is gone.
SILENCE_SECONDS = 1.5
CONNECT_SECONDS = 2.0
MAX_STREAM_ID = 0x7FFF_FFFF
#: Of the channels of sessions.
OPTIONS = [
    # Without this, channels to one address share one TCP connection and so one flow-control window.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.enable_http_proxy", 0),
]

_EOF = grpc.aio.EOF
_Call = Any  # grpc.aio.StreamStreamCall[bytes, bytes]; the stubs' generic parameters do not fit raw bytes


class SessionRefused(Exception):
    """The replica answered, but not with a session that this worker can use."""


class Session:
    """One open stream to a replica. `on_step` is called with every step after its tokens were delivered.

    `on_membership` is called with each membership after that of the welcome. `unreported` are the submits that no load
    reported in this session includes yet.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        call: _Call,
        welcome: codec.Welcome,
        on_step: Callable[[codec.Step], None],
        on_membership: Callable[[Membership], None],
        kv_updates: bool,
    ) -> None:
        self.welcome = welcome
        self.unreported = Unreported()
        self._channel = channel
        self._call = call
        self._on_step = on_step
        self._on_membership = on_membership
        self._mailboxes: dict[int, Mailbox] = {}
        self._next_stream = 1
        #: Ids from the next one up to here have never been used.
        self._unused_until = MAX_STREAM_ID
        self._submits: list[tuple[int, Submit]] = []
        self._cancels: list[int] = []
        self._kv_updates = kv_updates
        self._kv_resync = False
        self._ack = 0
        self._acked = 0
        # Acknowledge well before the window closes, yet not every message.
        self._ack_after = welcome.ack_window // 4
        self._open = True
        self._patience = Patience(SILENCE_SECONDS)
        #: Whether something is to be sent, and what the writer waits for while nothing is.
        self._outgoing = False
        self._writer: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def connect(
        cls,
        address: str,
        worker: str,
        on_step: Callable[[codec.Step], None],
        on_membership: Callable[[Membership], None],
        *,
        tls: TlsFiles | None = None,
        kv_updates: bool = False,
    ) -> "Session":
        """Open a channel and a session on it, whose steps carry KV updates if `kv_updates`.

        `address` and `tls` are as `open_channel` takes them. Raises SessionRefused, grpc.RpcError, PemError or
        TimeoutError.
        """
        channel = open_channel(address, tls, OPTIONS)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                call: _Call = channel.stream_stream(codec.SESSION_METHOD)()
                await call.write(codec.encode_hello(codec.Hello(PROTOCOL_VERSION, worker, kv_updates)))
                data = await call.read()
            if data is grpc.aio.EOF:
                raise SessionRefused(await call.details() or "the stream ended before the welcome")
            welcome = codec.decode_down(data)
            if not isinstance(welcome, codec.Welcome) or welcome.protocol_version != PROTOCOL_VERSION:
                raise SessionRefused("the first message is not a welcome of this protocol version")
        except BaseException:
            await channel.close()
            raise
        return cls(channel, call, welcome, on_step, on_membership, kv_updates)

    @property
    def streams(self) -> int:
        """Number of sequences open on this session."""
        return len(self._mailboxes)

    @property
    def longest(self) -> int:
        """KV tokens that the longest of the open sequences may take, as their receivers say."""
        receivers = (mailbox.receiver for mailbox in self._mailboxes.values())
        return max((receiver.most_tokens for receiver in receivers if receiver is not None), default=0)

    def open(
        self,
        submit: Submit,
        kv_tokens: int | None = None,
        compute_tokens: int | None = None,
        receiver: Receiver | None = None,
    ) -> Mailbox:
        """Send a request with the next batch, as `Transport.open`. Raises ReplicaUnavailable once it has ended."""
        if not self._open:
            raise ReplicaUnavailable("The connection to the replica is closed.")
        sequences = submit.sampling.n
        first = self._next_stream
        if first + sequences > self._unused_until:
            first = self._reused(sequences)
        self._next_stream = first + sequences
        mailbox = Mailbox(first, sequences, self._detach, self._loop, receiver)
        if sequences == 1:
            self._mailboxes[first] = mailbox
        else:
            self._mailboxes.update(dict.fromkeys(range(first, first + sequences), mailbox))
        if kv_tokens is None:
            kv_tokens = len(submit.prompt_ids) + sequences * (1 if submit.prefill_only else submit.max_tokens)
        if compute_tokens is None:
            compute_tokens = len(submit.prompt_ids)
        self.unreported.add(first, sequences, compute_tokens, kv_tokens)
        self._submits.append((first, submit))
        if not self._outgoing:
            self._send_soon()
        return mailbox

    def _reused(self, sequences: int) -> int:
        """Return the first of so many stream ids in a row that are free, once all have been used."""
        self._unused_until = 0
        first, mailboxes = self._next_stream, self._mailboxes
        while True:
            if first + sequences > MAX_STREAM_ID:
                first = 1
            if mailboxes.keys().isdisjoint(range(first, first + sequences)):
                return first
            first += sequences

    def resync_kv(self) -> None:
        """Request all KV blocks of the replica anew, with the next batch."""
        self._kv_resync = True
        self._send_soon()

    async def run(self) -> str:
        """Carry messages both ways until either side ends; then fail every open mailbox and return why it ended."""
        directions = [asyncio.create_task(part()) for part in (self._read, self._write, self._listen)]
        try:
            done, _ = await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            return "; ".join(dict.fromkeys(why for task in done if (why := why_ended(task.exception()))))
        finally:
            self._open = False
            for task in directions:
                task.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            self.fail_streams(ReplicaUnavailable("The connection to the replica was lost."))
            await self.aclose()

    def fail_streams(self, error: PenstockError) -> None:
        """Fail every open stream and cancel it at the engine."""
        mailboxes = set(self._mailboxes.values())
        if not self._open:
            self._mailboxes.clear()
        for mailbox in mailboxes:
            if self._open:
                mailbox.fail(error)
            else:
                mailbox.cut(error)

    async def aclose(self) -> None:
        """Close the channel of a session that never runs."""
        self._call.cancel()
        await self._channel.close()

    async def _read(self) -> None:
        call = self._call
        while (data := await call.read()) is not _EOF:
            self._patience.renew()
            step = codec.decode_down(data)
            if not isinstance(step, codec.Step):
                if not isinstance(step, Membership):
                    raise ProtocolError("a second welcome")
                self._on_membership(step)
                continue
            if step.kv_update is not None and not self._kv_updates:
                raise ProtocolError("a KV update that was not asked for")
            self._deal(step)
            if step.load is not None:
                self.unreported.reported(step.submits_seen)
            self._on_step(step)
            self._ack = seq = step.seq
            if seq - self._acked >= self._ack_after:
                self._send_soon()

    async def _listen(self) -> None:
        await exhausted(self._patience)
        raise TimeoutError(f"silent for {SILENCE_SECONDS:g} s")

    def _deal(self, step: codec.Step) -> None:
        mailboxes = self._mailboxes
        for stream_id, cached_tokens in step.starts:
            mailbox = mailboxes.get(stream_id)
            # Only the first sequence counts: the others find what it has just computed in the cache.
            if mailbox is not None and stream_id == mailbox.first_stream:
                mailbox.start(cached_tokens)
        if step.logprobs:
            self._deal_logprobs(step)
        elif step.counts:
            start, tokens = 0, step.tokens
            for stream_id, count in zip(step.stream_ids, step.counts, strict=True):
                mailbox = mailboxes.get(stream_id)
                if mailbox is not None:
                    mailbox.sink.put((stream_id - mailbox.base, tokens[start : start + count], None, None))
                start += count
        else:
            for stream_id, token in zip(step.stream_ids, step.tokens, strict=True):
                mailbox = mailboxes.get(stream_id)
                if mailbox is not None:
                    mailbox.sink.put((stream_id - mailbox.base, (token,), None, None))
        for stream_id, finish in step.finishes:
            mailbox = mailboxes.pop(stream_id, None)
            if mailbox is not None:
                mailbox.finish(stream_id - mailbox.base, finish)

    def _deal_logprobs(self, step: codec.Step) -> None:
        start, tokens = 0, step.tokens
        counts = step.counts or [1] * len(step.stream_ids)
        for position, (stream_id, count) in enumerate(zip(step.stream_ids, counts, strict=True)):
            mailbox = self._mailboxes.get(stream_id)
            if mailbox is not None:
                run = tokens[start : start + count]
                mailbox.sink.put((stream_id - mailbox.base, run, step.logprobs.get(position), None))
            start += count

    def _detach(self, mailbox: Mailbox, cancel: bool) -> None:
        if cancel:
            first = mailbox.first_stream
            self._cancels.append(first)
            self._send_soon()
            for stream_id in range(first, first + mailbox.sequences):
                self._mailboxes.pop(stream_id, None)

    def _send_soon(self) -> None:
        """Have the writer send what there is, with all that comes within this turn of the event loop."""
        if not self._outgoing:
            self._outgoing = True
            if self._writer is not None and not self._writer.done():
                self._writer.set_result(None)

    async def _write(self) -> None:
        while True:
            while not self._outgoing:
                self._writer = writer = self._loop.create_future()
                await writer
            self._outgoing = False
            submits, self._submits = self._submits, []
            cancels, self._cancels = self._cancels, []
            resync, self._kv_resync = self._kv_resync, False
            self._acked = self._ack
            await self._call.write(self._encode(submits, cancels, resync))

    def _encode(self, submits: list[tuple[int, Submit]], cancels: list[int], resync: bool) -> bytes:
        try:
            return codec.encode_up(submits, cancels, self._ack, resync)
        except (TypeError, ValueError):
            # One request that cannot be encoded must not fail the others of its batch.
            sound = [(stream_id, submit) for stream_id, submit in submits if self._fits(stream_id, submit)]
            return codec.encode_up(sound, cancels, self._ack, resync)

    def _fits(self, stream_id: int, submit: Submit) -> bool:
        try:
            codec.encode_up([(stream_id, submit)], (), 0)
        except (TypeError, ValueError):
            log.exception("request %s cannot be sent", submit.request_id)
            self.unreported.unsent(stream_id)
            mailbox = self._mailboxes.get(stream_id)
            if mailbox is not None:
                mailbox.fail(InternalError("The gateway failed on this request."))
            return False
        return True


def why_ended(error: BaseException | None) -> str:
    """Return why a session has ended; a defect of the gateway is logged with its traceback."""
    if error is None:
        return ""
    expected = (grpc.RpcError, ProtocolError, TimeoutError, asyncio.InvalidStateError, grpc.aio.UsageError)
    if not isinstance(error, expected):
        log.error("session lost", exc_info=error)
    return describe(error)


def describe(error: BaseException) -> str:
    """Return one line about an error for the log."""
    if isinstance(error, grpc.aio.AioRpcError):
        # For an address that does not answer gRPC gives "..., last error: CODE: ADDRESS: PROBLEM".
        problem = (error.details() or "").partition("; last error: ")[2].partition(": ")[2]
        return problem or f"{error.code().name}: {error.details()}"
    return str(error) or f"no answer within {CONNECT_SECONDS:g} s"
