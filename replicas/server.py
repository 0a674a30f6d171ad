"""The replica's end of the session protocol: one gRPC server in front of one engine.

A session belongs to a gateway worker. Its submits get handles of the engine; what the engine emits goes to the
outboxes of the sessions concerned and leaves as one message a step. A session that ends cancels what it left open.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc.aio

from protos import codec
from protos.types import PROTOCOL_VERSION, Failure, Finish, FinishReason, KvEvent, Load, Submit
from replicas.engine import Engine, EngineStep
from replicas.outbox import Outbox

log = logging.getLogger(__name__)

#: Steps a worker may leave unacknowledged before the replica merges further ones.
ACK_WINDOW = 32
#: Seconds between looks at idle sessions, and the longest silence a session keeps.
HEARTBEAT_SECONDS = 0.2
MAX_SILENCE_SECONDS = 1.0
#: How long a new session may take to say hello.
HELLO_SECONDS = 5.0
#: How long closing waits for a worker to take the last steps.
FLUSH_SECONDS = 1.0
#: A 128k-token prompt is about 400 kB of varints; a batch of them must fit.
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
#: Prompts that occupy an engine for so long that every worker is told when one comes and when it is done: those with
#: work that waits, or that they would rather not put behind it, cannot wait for the next heartbeat.
LONG_PROMPT_TOKENS = 2048
#: Sequences of one submit; the APIs ask for 128 at most, and each costs memory before the engine has looked at it.
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
    """The replica's address could not be bound."""


class _Session:
    """One worker's session: its open streams, its outbox and the flow control between them."""

    def __init__(self, worker: str, kv_events: bool) -> None:
        self.worker = worker
        self.kv_events = kv_events
        self.handles: dict[int, int] = {}  # first stream id of a submit -> engine handle
        self.streams: set[int] = set()  # open stream ids, of all sequences
        self.outbox = Outbox()
        self.submitted = 0  # sequences
        self.sent = 0
        self.acked = 0
        self.last_write = time.monotonic()
        self.writer: asyncio.Task[None] | None = None
        self._closing = False
        self._wake = asyncio.Event()

    def report(self, load: Load) -> None:
        """Send the engine's load with the next message, which knows of everything submitted so far."""
        self.outbox.load = load
        self.outbox.submits_seen = self.submitted
        self._wake.set()

    def close_when_empty(self) -> None:
        self._closing = True
        self._wake.set()

    def notify(self) -> None:
        self._wake.set()

    def acknowledge(self, seq: int) -> None:
        if seq > self.acked:
            self.acked = seq
            self._wake.set()

    async def next_message(self) -> bytes | None:
        """The next step to write, once there is something to say and room in the window; None: nothing will come."""
        while not self.outbox or self.sent - self.acked >= ACK_WINDOW:
            if self._closing and not self.outbox:
                return None
            self._wake.clear()
            await self._wake.wait()
        step = self.outbox.take(time.time_ns() // 1000)
        self.sent = step.seq
        self.last_write = time.monotonic()
        return codec.encode_step(step)


class _Owner:
    """Where an engine handle answers, which of its sequences are still open, and its prompt until it is computed."""

    __slots__ = ("first_stream", "open", "prefill_tokens", "session")

    def __init__(self, session: _Session, first_stream: int, submit: Submit) -> None:
        self.session = session
        self.first_stream = first_stream
        self.open = set(range(submit.sampling.n))
        self.prefill_tokens = len(submit.prompt_ids)


class ReplicaServer:
    """Serves one engine on one address until closed.

    `failed` is set to the engine's exception when the engine is lost; the owner then exits so that a supervisor
    starts a fresh process, with a fresh epoch.
    """

    def __init__(self, engine: Engine, *, epoch: int | None = None) -> None:
        self._engine = engine
        self._epoch = time.time_ns() if epoch is None else epoch
        self._sessions: set[_Session] = set()
        self._owners: dict[int, _Owner] = {}
        self._handles = 0
        self._load = Load(kv_blocks_total=engine.info.kv_blocks_total)
        self._unseen = 0  # sequences that the engine was given since then
        self._prefill_tokens = 0
        self._workers: Counter[str] = Counter()
        self._draining = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._grpc: grpc.aio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    async def start(self, address: str) -> str:
        """Listen on `host:port` (port 0: any) or `unix:/path`; returns the address bound. Raises AddressInUse."""
        handler: Any = grpc.stream_stream_rpc_method_handler(self._session)
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(codec.SERVICE, {"Session": handler}),))
        try:
            port = server.add_insecure_port(address)
        except RuntimeError as error:
            raise AddressInUse(f"cannot listen on {address}") from error
        await server.start()
        self._grpc = server
        self._tasks = [asyncio.create_task(self._run_engine()), asyncio.create_task(self._heartbeat())]
        return address if address.startswith("unix:") else f"{address.rsplit(':', 1)[0]}:{port}"

    async def drain(self, grace_seconds: float) -> None:
        """Refuse new submits, tell the workers, and wait until the open ones are done or the grace is over."""
        self._draining = True
        self._broadcast_load()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), grace_seconds)

    async def close(self) -> None:
        """Send what is gathered, then end every connection; streams still open end with it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for session in self._sessions:
            session.close_when_empty()
        writers = [session.writer for session in self._sessions if session.writer is not None]
        if writers:
            await asyncio.wait(writers, timeout=FLUSH_SECONDS)
        if self._grpc is not None:
            await self._grpc.stop(grace=None)

    async def _run_engine(self) -> None:
        try:
            await self._engine.run(self._emit)
            raise RuntimeError("the engine stopped by itself")
        except Exception as error:
            log.exception("the engine is lost; failing %d open requests", len(self._owners))
            self._draining = True
            failure = Finish(FinishReason.ERROR, failure=Failure("engine_error", "the engine is lost"))
            for handle, owner in list(self._owners.items()):
                for index in list(owner.open):
                    self._finish(handle, index, failure)
            self._broadcast_load()
            self.failed.set_result(error)

    def _emit(self, step: EngineStep) -> None:
        touched: set[_Session] = set()
        owners, long_started = self._owners, False
        for delta in step.deltas:
            owner = owners.get(delta.handle)
            if owner is not None:
                session = owner.session
                stream_id = owner.first_stream + delta.index
                session.outbox.add_tokens(stream_id, delta.token_ids, delta.logprobs)
                # Told once a request: its other sequences find what the first has just computed.
                if owner.prefill_tokens and delta.cached_tokens is not None:
                    session.outbox.add_start(owner.first_stream, delta.cached_tokens)
                    long_started |= self._prompt_done(owner)
                touched.add(session)
        for handle, cached_tokens in step.started:
            owner = owners.get(handle)
            if owner is not None and owner.prefill_tokens:
                owner.session.outbox.add_start(owner.first_stream, cached_tokens)
                long_started |= self._prompt_done(owner)
        for handle, index, finish in step.finishes:
            session_or_none = self._finish(handle, index, finish)
            if session_or_none is not None:
                touched.add(session_or_none)
        self._load, self._unseen = step.load, 0
        if step.kv_events:
            touched |= self._add_kv_events(step.kv_events)
        load = self._current_load()
        for session in self._sessions if long_started else touched:
            session.report(load)

    def _add_kv_events(self, events: list[KvEvent]) -> set[_Session]:
        subscribed = {session for session in self._sessions if session.kv_events}
        for session in subscribed:
            session.outbox.add_kv_events(events)
        return subscribed

    def _finish(self, handle: int, index: int, finish: Finish) -> _Session | None:
        owner = self._owners.get(handle)
        if owner is None or index not in owner.open:
            return None
        owner.open.discard(index)
        self._prompt_done(owner)
        owner.session.streams.discard(owner.first_stream + index)
        owner.session.outbox.add_finish(owner.first_stream + index, finish)
        if not owner.open:
            self._forget(handle, owner)
        return owner.session

    def _forget(self, handle: int, owner: _Owner) -> None:
        del self._owners[handle]
        self._prompt_done(owner)
        owner.session.handles.pop(owner.first_stream, None)
        if not self._owners:
            self._idle.set()

    def _prompt_done(self, owner: _Owner) -> bool:
        """Note that the request waits for its first token no longer; whether its prompt was a long one."""
        tokens, owner.prefill_tokens = owner.prefill_tokens, 0
        self._prefill_tokens -= tokens
        return tokens >= LONG_PROMPT_TOKENS

    def _current_load(self) -> Load:
        """The engine's last report, with what it was given since then: every submit so far counts in it."""
        load = self._load
        return Load(
            load.running,
            load.waiting + self._unseen,
            load.kv_blocks_used,
            load.kv_blocks_total,
            load.tokens_in_flight,
            self._draining,
            self._prefill_tokens,
            len(self._workers),
            load.kv_blocks_reserved,
        )

    def _broadcast_load(self) -> None:
        load = self._current_load()
        for session in self._sessions:
            session.report(load)

    async def _heartbeat(self) -> None:
        """Sessions without traffic of their own still learn the load soon, and can tell silence from death."""
        said: dict[_Session, Load] = {}
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            now, load = time.monotonic(), self._current_load()
            said = {session: known for session, known in said.items() if session in self._sessions}
            for session in self._sessions:
                quiet = now - session.last_write
                if quiet >= MAX_SILENCE_SECONDS or (quiet >= HEARTBEAT_SECONDS and said.get(session) != load):
                    said[session] = load
                    session.report(load)

    async def _session(self, messages: AsyncIterator[bytes], context: "grpc.aio.ServicerContext[Any, Any]") -> None:
        session = await self._open_session(context)
        if session is None:
            return
        self._sessions.add(session)
        self._workers[session.worker] += 1
        session.report(self._current_load())
        session.writer = asyncio.create_task(self._write(session, context))
        try:
            while (data := await context.read()) is not grpc.aio.EOF:
                self._receive(session, codec.decode_up(data))
        except codec.ProtocolError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            self._sessions.discard(session)
            self._workers -= Counter((session.worker,))
            session.writer.cancel()
            for handle in list(session.handles.values()):
                self._engine.cancel(handle)
                self._forget(handle, self._owners[handle])

    async def _open_session(self, context: "grpc.aio.ServicerContext[Any, Any]") -> _Session | None:
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                first = await context.read()
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "no hello came")
        if first is grpc.aio.EOF:
            return None
        try:
            hello = codec.decode_up(first).hello
        except codec.ProtocolError:
            hello = None
        if hello is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a session begins with hello")
        if hello.protocol_version != PROTOCOL_VERSION:
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"this replica speaks session protocol {PROTOCOL_VERSION}, the worker {hello.protocol_version}",
            )
        await context.write(
            codec.encode_welcome(codec.Welcome(PROTOCOL_VERSION, self._epoch, self._engine.info, ACK_WINDOW))
        )
        return _Session(hello.worker, hello.kv_events)

    async def _write(self, session: _Session, context: "grpc.aio.ServicerContext[Any, Any]") -> None:
        # The peer's going away ends the read side, which cancels this task; a failed write needs no report of its own.
        try:
            while (message := await session.next_message()) is not None:
                await context.write(message)
        except (grpc.RpcError, asyncio.InvalidStateError):
            pass
        except Exception:
            log.exception("a step of the engine cannot be sent; ending the session of %s", session.worker)
            with contextlib.suppress(Exception):
                await context.abort(grpc.StatusCode.INTERNAL, "the engine's output cannot be sent")

    def _receive(self, session: _Session, up: codec.Up) -> None:
        if up.hello is not None:
            raise codec.ProtocolError("a second hello")
        session.acknowledge(up.ack)
        for stream_id, submit in up.submits:
            self._submit(session, stream_id, submit)
        for stream_id in up.cancels:
            handle = session.handles.get(stream_id)
            if handle is not None:
                self._engine.cancel(handle)

    def _submit(self, session: _Session, stream_id: int, submit: Submit) -> None:
        if not 1 <= submit.sampling.n <= MAX_SEQUENCES:
            raise codec.ProtocolError(f"a submit has 1 to {MAX_SEQUENCES} sequences, not {submit.sampling.n}")
        streams = range(stream_id, stream_id + submit.sampling.n)
        if stream_id in session.handles or not session.streams.isdisjoint(streams):
            raise codec.ProtocolError(f"stream {stream_id} is still open")
        self._handles += 1
        handle = self._handles
        owner = _Owner(session, stream_id, submit)
        self._owners[handle] = owner
        self._prefill_tokens += owner.prefill_tokens
        session.submitted += submit.sampling.n
        session.handles[stream_id] = handle
        session.streams.update(streams)
        self._idle.clear()
        if self._draining:
            failure = Finish(FinishReason.ERROR, failure=Failure("draining", "the replica is draining"))
            for index in range(submit.sampling.n):
                self._finish(handle, index, failure)
            session.notify()
        else:
            self._unseen += submit.sampling.n
            self._engine.submit(handle, submit)
            if owner.prefill_tokens >= LONG_PROMPT_TOKENS:
                self._broadcast_load()


async def serve_pool(
    engines: list[tuple[str, Engine]], *, drain_seconds: float, stop: asyncio.Event, ready: Callable[[list[str]], None]
) -> int:
    """Serve (address, engine) pairs in this process until `stop` is set, then drain.

    Returns the process's exit status: 0, or 1 when an engine was lost. Raises AddressInUse.
    """
    servers: list[ReplicaServer] = []
    try:
        addresses = []
        for address, engine in engines:
            server = ReplicaServer(engine)
            addresses.append(await server.start(address))
            servers.append(server)
        ready(addresses)
        stopping = asyncio.ensure_future(stop.wait())
        endings: list[asyncio.Future[Any]] = [stopping, *(server.failed for server in servers)]
        await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        status = 1 if any(server.failed.done() for server in servers) else 0
        # A lost engine fails its own streams at once; its neighbours in this process still finish theirs.
        await asyncio.gather(*(server.drain(drain_seconds) for server in servers if not server.failed.done()))
        return status
    finally:
        await asyncio.gather(*(server.close() for server in servers))
