"""The replica server: the replica's side of the session protocol, one gRPC server in front of one engine.

A session belongs to a gateway worker. Its submits get handles of the engine; the engine's output goes to the outboxes
of its sessions and leaves as one message per step. A session that ends cancels its open requests.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

import grpc.aio

from protos import codec
from protos.protocol_error import ProtocolError
from protos.server_tls import ServerTls, add_port
from protos.stock.stock_codec import HEALTHY
from protos.types import PROTOCOL_VERSION, Failure, Finish, FinishReason, Load, ReplicaInfo, Submit, Work
from replicas.consumer import Consumer
from replicas.engine import Engine, EngineStep
from replicas.groups.group_member import GroupMember, GroupOptions
from replicas.kv_events import KvLedger
from replicas.kv_relay import KvRelay
from replicas.request_owner import RequestOwner
from replicas.stock_service import StockService
from replicas.worker_session import Session

log = logging.getLogger(__name__)

#: Workers of this protocol are served, too; they hear nothing of host groups.
OLDEST_PROTOCOL = 4
#: Steps that a worker may leave unacknowledged before the replica merges further ones.
ACK_WINDOW = 32
#: Seconds between checks of idle sessions, and the silence after which a check sends a message: a session sends at
#: least every 0.5 s, and after three times as long a worker takes the replica for lost.
HEARTBEAT_SECONDS = 0.2
MAX_SILENCE_SECONDS = 0.3
#: Seconds within which a new session must send its hello.
HELLO_SECONDS = 5.0
#: Seconds for which closing waits for a worker to take the last steps.
FLUSH_SECONDS = 1.0
#: A 128k-token prompt is about 400 kB of varints; a batch of them must fit.
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
#: Seconds for which KV changes are gathered, where nothing else is sent to the worker.
KV_DELAY_SECONDS = 0.02
#: Most sequences of one submit; the APIs allow 128, and each costs memory before the engine has checked it.
MAX_SEQUENCES = 1024

_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
]


class AddressInUse(OSError):
    """The address could not be bound."""


class ReplicaServer:
    """Serves one engine on one address until closed.

    `failed` is set to the engine's exception when the engine is lost; the owner then exits so that a supervisor
    starts a fresh process, with a fresh epoch.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        epoch: int | None = None,
        tls: ServerTls | None = None,
        group: GroupOptions | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` counts the seconds for which tokens are held. The replica may be in a host group."""
        self._engine = engine
        self._clock = clock
        self._tls = tls
        self._epoch = time.time_ns() if epoch is None else epoch
        self._sessions: set[Session] = set()
        self._owners: dict[int, RequestOwner] = {}
        self._handles = 0
        self._load = Load(kv_blocks_total=engine.info.kv_blocks_total)
        self._work: Work | None = None
        self._adapters: tuple[str, ...] | None = None
        self._steps = 0
        # Submitted since the engine's last step: sequences, and the work of their prompts.
        self._unseen = self._unseen_tokens = self._unseen_pairs = 0
        self._ledger = KvLedger(engine.info.kv_block_tokens, engine.info.kv_blocks_total)
        self._kv_timer: asyncio.TimerHandle | None = None
        #: The relay of KV cache events to subscribers of the stock service.
        self.relay = KvRelay(engine.info.kv_blocks_total)
        self._stock = StockService(self)
        self._workers: Counter[str] = Counter()
        self._group = None if group is None else GroupMember(group, self._epoch, self)
        self._draining = False
        self._refusal: Failure | None = None  # of all requests
        self._idle = asyncio.Event()
        self._idle.set()
        self._grpc: grpc.aio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    @property
    def info(self) -> ReplicaInfo:
        """The engine's own description."""
        return self._engine.info

    @property
    def sessions(self) -> int:
        """Number of open sessions."""
        return len(self._sessions)

    @property
    def condition(self) -> str:
        """The reason why the replica takes no requests, or `OK`."""
        if self.failed.done():
            return "The engine is lost"
        if self._draining:
            return "Draining: no new requests are taken"
        return HEALTHY if self._refusal is None else f"Parked: {self._refusal.message}"

    async def start(self, address: str) -> str:
        """Listen on `host:port` (port 0: any) or `unix:/path`; return the bound address.

        Raises AddressInUse, or PemError where a file for TLS cannot be used.
        """
        handler: Any = grpc.stream_stream_rpc_method_handler(self._session)
        server = grpc.aio.server(options=_OPTIONS)
        methods = {"Session": handler}
        if self._group is not None:
            methods["Join"] = grpc.stream_stream_rpc_method_handler(self._group.join)
        session = grpc.method_handlers_generic_handler(codec.SERVICE, methods)
        server.add_generic_rpc_handlers((session, self._stock.handlers()))
        try:
            port = add_port(server, address, self._tls)
        except RuntimeError as error:
            raise AddressInUse(f"cannot listen on {address}") from error
        await server.start()
        self._grpc = server
        self._tasks = [asyncio.create_task(self._run_engine()), asyncio.create_task(self._heartbeat())]
        return address if address.startswith("unix:") else f"{address.rsplit(':', 1)[0]}:{port}"

    async def drain(self, grace_seconds: float) -> None:
        """Refuse new submits, tell the workers, and wait until open requests end or the grace period is over."""
        self._drain()
        self._broadcast_load()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self._idle.wait()

    def _drain(self) -> None:
        self._draining = True
        self._refusal = Failure("draining", "the replica is draining")
        if self._group is not None:
            self._group.drain()

    async def close(self) -> None:
        """Send buffered output, then end every connection; streams still open end with it."""
        if self._group is not None:
            await self._group.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._kv_timer is not None:
            self._kv_timer.cancel()
        for session in self._sessions:
            session.close_when_empty()
        writers = [session.writer for session in self._sessions if session.writer is not None]
        if writers:
            await asyncio.wait(writers, timeout=FLUSH_SECONDS)
        await self._stock.flush(FLUSH_SECONDS)
        if self._grpc is not None:
            await self._grpc.stop(grace=None)

    async def _run_engine(self) -> None:
        try:
            await self._engine.run(self._emit)
            raise RuntimeError("the engine stopped by itself")
        except Exception as error:
            log.exception("the engine is lost; failing %d open requests", len(self._owners))
            self._drain()
            self.end(None, Failure("engine_error", "the engine is lost"))
            self._broadcast_load()
            self.failed.set_result(error)

    def end(self, handles: Collection[int] | None, failure: Failure) -> None:
        """End requests (None: all) of which no more comes from the engine."""
        finish = Finish(FinishReason.ERROR, failure=failure)
        if handles is None:
            # No step may come that would have seen them.
            self._unseen = self._unseen_tokens = self._unseen_pairs = 0
        for handle in list(self._owners) if handles is None else handles:
            owner = self._owners.get(handle)
            for index in list(owner.open) if owner is not None else ():
                consumer = self._finish(handle, index, finish)
                if consumer is not None:
                    consumer.report(self.current_load(), self._work)

    def take_requests(self, refusal: Failure | None) -> None:
        """Refuse requests so from now on, or take them, unless the replica is draining."""
        if not self._draining:
            self._refusal = refusal

    def announce(self, membership: bytes) -> None:
        """Tell all sessions how the replica stands in its host group, and end those that would not understand."""
        for session in self._sessions:
            if session.protocol >= PROTOCOL_VERSION:
                session.announce(membership)
            elif session.info != self._engine.info or self._refusal is not None:
                session.close_when_empty("the replica's shape has changed")

    def _emit(self, step: EngineStep) -> None:
        touched: set[Consumer] = set()
        owners, long_started, now = self._owners, False, self._clock()
        for delta in step.deltas:
            owner = owners.get(delta.handle)
            if owner is not None:
                # Sent once per request: its other sequences find what the first has just computed.
                if not owner.started and delta.cached_tokens is not None:
                    owner.start(delta.cached_tokens, now)
                    long_started |= owner.long
                if not owner.hold_seconds or delta.logprobs is not None:
                    owner.outbox.add_tokens(owner.first_stream + delta.index, delta.token_ids, delta.logprobs)
                elif not owner.hold(delta, now):
                    continue
                touched.add(owner.consumer)
        for handle, cached_tokens in step.started:
            owner = owners.get(handle)
            if owner is not None and not owner.started:
                owner.start(cached_tokens, now)
                long_started |= owner.long
        for handle, index, finish in step.finishes:
            consumer = self._finish(handle, index, finish)
            if consumer is not None:
                touched.add(consumer)
        self._load, self._work = step.load, step.work
        if step.adapters is not None:
            self._adapters = step.adapters
            for session in self._sessions:
                session.outbox.adapters = step.adapters
            touched |= self._sessions
        self._steps += 1
        self._unseen = self._unseen_tokens = self._unseen_pairs = 0
        if step.kv_events:
            self._ledger.take(step.kv_events)
            self.relay.take(step.kv_events)
            if self._kv_timer is None:
                self._kv_timer = asyncio.get_running_loop().call_later(KV_DELAY_SECONDS, self._send_kv)
        load = self.current_load()
        for listener in touched | self._sessions if long_started else touched:
            listener.report(load, self._work)

    def _send_kv(self) -> None:
        """Wake the sessions that have KV changes to send and nothing else to send."""
        self._kv_timer = None
        for session in self._sessions:
            if session.kv:
                session.notify()

    def _finish(self, handle: int, index: int, finish: Finish) -> Consumer | None:
        owner = self._owners.get(handle)
        if owner is None or index not in owner.open:
            return None
        owner.open.discard(index)
        owner.release(index)
        owner.outbox.add_finish(owner.first_stream + index, finish)
        owner.consumer.closed(owner.first_stream + index)
        if not owner.open:
            self._forget(handle, owner)
        return owner.consumer

    def _forget(self, handle: int, owner: RequestOwner) -> None:
        del self._owners[handle]
        owner.consumer.request_ended(owner.first_stream)
        if not self._owners:
            self._idle.set()

    def current_load(self) -> Load:
        """Return the engine's last load plus what was submitted since: it includes every submit so far."""
        load = self._load
        return Load(
            load.running,
            load.waiting + self._unseen,
            load.kv_blocks_used,
            load.kv_blocks_total,
            load.tokens_in_flight,
            self._draining,
            load.prefill_tokens + self._unseen_tokens,
            len(self._workers),
            load.kv_blocks_reserved,
            load.prefill_pairs + self._unseen_pairs,
            self._steps,
        )

    def _broadcast_load(self) -> None:
        load = self.current_load()
        for session in self._sessions:
            session.report(load, self._work)

    async def _heartbeat(self) -> None:
        """Send the load to sessions without traffic, so that workers can tell an idle replica from a dead one."""
        said: dict[Session, Load] = {}
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            now, load = time.monotonic(), self.current_load()
            said = {session: known for session, known in said.items() if session in self._sessions}
            for session in self._sessions:
                quiet = now - session.last_write
                if quiet >= MAX_SILENCE_SECONDS or (quiet >= HEARTBEAT_SECONDS and said.get(session) != load):
                    said[session] = load
                    session.report(load, self._work)

    async def _session(self, messages: AsyncIterator[bytes], context: "grpc.aio.ServicerContext[Any, Any]") -> None:
        session = await self._open_session(context)
        if session is None:
            return
        self._sessions.add(session)
        session.outbox.adapters = self._adapters
        if not session.watches:
            self._workers[session.worker] += 1
        session.report(self.current_load(), self._work)
        session.writer = asyncio.create_task(self._write(session, context))
        try:
            while (data := await context.read()) is not grpc.aio.EOF:
                self._receive(session, codec.decode_up(data))
        except ProtocolError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            self._sessions.discard(session)
            if not session.watches:
                self._workers -= Counter((session.worker,))
            if session.kv is not None:
                self._ledger.unsubscribe(session.kv)
            session.writer.cancel()
            for handle in list(session.handles.values()):
                self.drop(handle)

    async def _open_session(self, context: "grpc.aio.ServicerContext[Any, Any]") -> Session | None:
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                first = await context.read()
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "no hello came")
        if first is grpc.aio.EOF:
            return None
        try:
            hello = codec.decode_up(first).hello
        except ProtocolError:
            hello = None
        if hello is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a session begins with hello")
        spoken = hello.protocol_version
        if not OLDEST_PROTOCOL <= spoken <= PROTOCOL_VERSION:
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"this replica speaks session protocols {OLDEST_PROTOCOL} to {PROTOCOL_VERSION}, the worker {spoken}",
            )
        membership, info = None, self._engine.info
        if self._group is not None:
            if spoken >= PROTOCOL_VERSION:
                membership = self._group.membership()
            elif self._group.parked:
                await context.abort(grpc.StatusCode.UNAVAILABLE, self.condition)
        await context.write(codec.encode_welcome(codec.Welcome(spoken, self._epoch, info, ACK_WINDOW, membership)))
        kv = self._ledger.subscribe() if hello.kv_updates else None
        return Session(hello, kv, ACK_WINDOW, info)

    async def _write(self, session: Session, context: "grpc.aio.ServicerContext[Any, Any]") -> None:
        # A disconnect of the peer ends the read side, which cancels this task; a failed write needs no own report.
        try:
            while (message := await session.next_message()) is not None:
                await context.write(message)
            if session.ended_for:
                await context.abort(grpc.StatusCode.UNAVAILABLE, session.ended_for)
        except (grpc.RpcError, grpc.aio.InternalError, asyncio.InvalidStateError):
            pass
        except Exception:
            log.exception("a step of the engine cannot be sent; ending the session of %s", session.worker)
            with contextlib.suppress(Exception):
                await context.abort(grpc.StatusCode.INTERNAL, "the engine's output cannot be sent")

    def _receive(self, session: Session, up: codec.Up) -> None:
        if up.hello is not None:
            raise ProtocolError("a second hello")
        session.acknowledge(up.ack)
        if up.kv_resync and session.kv is not None:
            session.kv.restart()
            session.notify()
        if up.reshape is not None:
            if self._group is None:
                raise ProtocolError("this replica is in no host group")
            self._group.order(up.reshape, session.announce)
        for stream_id, submit in up.submits:
            self._submit(session, stream_id, submit)
        for stream_id in up.cancels:
            handle = session.handles.get(stream_id)
            if handle is not None:
                self._engine.cancel(handle)

    def _submit(self, session: Session, stream_id: int, submit: Submit) -> None:
        if not 1 <= submit.sampling.n <= MAX_SEQUENCES:
            raise ProtocolError(f"a submit has 1 to {MAX_SEQUENCES} sequences, not {submit.sampling.n}")
        streams = range(stream_id, stream_id + submit.sampling.n)
        if stream_id in session.handles or not session.streams.isdisjoint(streams):
            raise ProtocolError(f"stream {stream_id} is still open")
        session.submitted += submit.sampling.n
        session.streams.update(streams)
        session.handles[stream_id] = self._handles + 1
        self.run(session, stream_id, submit)

    def run(self, consumer: Consumer, first_stream: int, submit: Submit) -> int:
        """Submit a request, whose streams go to `consumer` numbered from `first_stream`; return its handle."""
        self._handles += 1
        handle = self._handles
        owner = RequestOwner(consumer, first_stream, submit)
        self._owners[handle] = owner
        self._idle.clear()
        if self._refusal is not None:
            self.end((handle,), self._refusal)
            return handle
        self._unseen += submit.sampling.n
        if submit.handoff is None:  # else its KV comes from another replica
            tokens = len(submit.prompt_ids)
            self._unseen_tokens += tokens
            self._unseen_pairs += tokens * (tokens + 1) // 2
        self._engine.submit(handle, submit)
        if owner.long:
            self._broadcast_load()
        return handle

    def drop(self, handle: int) -> None:
        """Cancel a request at the engine. Unknown handles are ignored."""
        owner = self._owners.get(handle)
        if owner is not None:
            self._engine.cancel(handle)
            self._forget(handle, owner)
