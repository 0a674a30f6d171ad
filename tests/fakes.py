"""Fakes shaped like failures: engines that die, say nothing or refuse, and replicas that break the protocol."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc.aio

from protos import codec
from protos.types import (
    PROTOCOL_VERSION,
    Failure,
    Finish,
    FinishReason,
    KvEvent,
    Load,
    ReplicaInfo,
    Role,
    Shape,
    Submit,
    Work,
)
from replicas.engine import Delta, EngineStep
from routing.health.probe import PROBE

TP2 = Shape(tp=2)


def info_of(
    *, model: str = "mixtral-8x7b", engine: str = "simulated", shape: Shape = TP2, role: Role = Role.BOTH
) -> ReplicaInfo:
    """What a fake says of itself."""
    return ReplicaInfo(model, engine, "fake", shape, role, 8, 32768, 32, 1024)


INFO = info_of()


class SilentEngine:
    """Takes every request and never says a word of it; `say` makes it emit one step after all."""

    def __init__(self, info: ReplicaInfo = INFO) -> None:
        self.info = info
        self.submitted: dict[int, Submit] = {}
        self.asked = asyncio.Event()
        self.cancelled: list[int] = []
        self._emit: Callable[[EngineStep], None] | None = None

    def submit(self, handle: int, request: Submit) -> None:
        self.submitted[handle] = request
        self.asked.set()

    def cancel(self, handle: int) -> None:
        self.cancelled.append(handle)

    def say(
        self,
        *deltas: Delta,
        finishes: list[tuple[int, int, Finish]] | None = None,
        load: Load | None = None,
        events: list[KvEvent] | None = None,
        work: Work | None = None,
        adapters: tuple[str, ...] | None = None,
    ) -> None:
        assert self._emit is not None
        step = EngineStep(list(deltas), finishes or [], load or Load(), events or [], work=work, adapters=adapters)
        self._emit(step)

    async def run(self, emit: Callable[[EngineStep], None]) -> None:
        self._emit = emit
        await asyncio.Event().wait()


class WedgedEngine(SilentEngine):
    """Answers every request in one step with as many tokens as it may have, except while it is wedged: then it hangs
    as a real one does, while its server speaks on."""

    def __init__(self, info: ReplicaInfo = INFO) -> None:
        super().__init__(info)
        self.answered: list[Submit] = []
        self._free = asyncio.Event()
        self._free.set()

    def wedge(self) -> None:
        self._free.clear()

    def revive(self) -> None:
        self._free.set()

    def cancel(self, handle: int) -> None:
        super().cancel(handle)
        self.submitted.pop(handle, None)

    async def run(self, emit: Callable[[EngineStep], None]) -> None:
        while True:
            await self.asked.wait()
            await self._free.wait()
            self.asked.clear()
            requests, self.submitted = self.submitted, {}
            self.answered.extend(requests.values())
            if requests:
                emit(_answered(requests))


def _answered(requests: dict[int, Submit]) -> EngineStep:
    sequences = [(handle, k, request) for handle, request in requests.items() for k in range(request.sampling.n)]
    deltas = [Delta(handle, k, [7] * request.max_tokens) for handle, k, request in sequences]
    finishes = [
        (handle, k, Finish(FinishReason.LENGTH, len(request.prompt_ids), 0, request.max_tokens))
        for handle, k, request in sequences
    ]
    return EngineStep(deltas, finishes, Load(), [])


class DiesAfter(SilentEngine):
    """Gives every open request a token a step, and is lost after some steps; probes it answers at once."""

    def __init__(self, steps: int, info: ReplicaInfo = INFO) -> None:
        super().__init__(info)
        self._steps = steps

    def submit(self, handle: int, request: Submit) -> None:
        if request.request_id != PROBE.request_id:
            super().submit(handle, request)
        elif self._emit is not None:
            self._emit(_answered({handle: request}))

    async def run(self, emit: Callable[[EngineStep], None]) -> None:
        self._emit = emit
        await self.asked.wait()
        for number in range(self._steps):
            deltas = [Delta(h, k, [number]) for h, r in self.submitted.items() for k in range(r.sampling.n)]
            emit(EngineStep(deltas, [], Load(running=len(deltas)), []))
            await asyncio.sleep(0)
        raise RuntimeError("CUDA error: an illegal memory access in /opt/secret/engine.cu")


class StopsByItself(SilentEngine):
    """Its `run` returns, which the seam does not allow."""

    async def run(self, emit: Callable[[EngineStep], None]) -> None:
        await self.asked.wait()


class RefusesWith(SilentEngine):
    """Ends every sequence with one failure."""

    def __init__(self, failure: Failure, info: ReplicaInfo = INFO) -> None:
        super().__init__(info)
        self._failure = failure

    def submit(self, handle: int, request: Submit) -> None:
        super().submit(handle, request)
        finish = Finish(FinishReason.ERROR, failure=self._failure)
        self.say(finishes=[(handle, k, finish) for k in range(request.sampling.n)])


class RawReplica:
    """A gRPC server with the protocol in the hands of the test; `ups` are all messages after the hellos."""

    def __init__(self) -> None:
        self.hellos: list[codec.Hello] = []
        self.ups: list[codec.Up] = []
        self.sessions = 0
        self.heard = asyncio.Event()
        self._contexts: list[Any] = []
        #: A call takes one write at a time, and a worker has the welcome before its write is over here.
        self._writing = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def listening(self, address: str = "127.0.0.1:0") -> AsyncIterator[str]:
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        handler: Any = grpc.stream_stream_rpc_method_handler(self._session)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(codec.SERVICE, {"Session": handler}),))
        port = server.add_insecure_port(address)
        await server.start()
        try:
            yield address if address.startswith("unix:") else f"127.0.0.1:{port}"
        finally:
            await server.stop(None)

    async def send(self, *steps: codec.Step) -> None:
        """Send steps to the last session."""
        for step in steps:
            await self.send_bytes(codec.encode_step(step))

    async def send_bytes(self, data: bytes) -> None:
        await self.send_bytes_to(-1, data)

    async def send_bytes_to(self, session: int, data: bytes) -> None:
        """To one of the sessions, in the order in which they opened."""
        async with self._writing:
            await self._contexts[session].write(data)

    def welcome(self) -> codec.Welcome:
        return codec.Welcome(PROTOCOL_VERSION, 1, INFO, ack_window=32)

    async def _session(self, messages: object, context: Any) -> None:
        self.sessions += 1
        hello = codec.decode_up(await context.read()).hello
        assert hello is not None
        self.hellos.append(hello)
        async with self._writing:
            self._contexts.append(context)
            await context.write(codec.encode_welcome(self.welcome()))
        while (data := await context.read()) is not grpc.aio.EOF:
            up = codec.decode_up(data)
            self.ups.append(up)
            self.heard.set()
            await self.hear(context, up)

    async def hear(self, context: Any, up: codec.Up) -> None:
        """A message after the hello."""


class DropsStream(RawReplica):
    """Answers probes, and breaks the session at the first other submit, after `tokens` tokens."""

    def __init__(self, tokens: int = 0) -> None:
        super().__init__()
        self._tokens = tokens

    async def hear(self, context: Any, up: codec.Up) -> None:
        for stream_id, submit in up.submits:
            if submit.request_id == PROBE.request_id:
                finish = Finish(FinishReason.LENGTH, 1, 0, 1)
                await context.write(
                    codec.encode_step(codec.Step(1, stream_ids=[stream_id], tokens=[1], finishes=[(stream_id, finish)]))
                )
                continue
            for number in range(self._tokens):
                await self.send(codec.Step(seq=number + 1, stream_ids=[stream_id], tokens=[number]))
            await context.abort(grpc.StatusCode.UNAVAILABLE, "dropped at 10.0.0.7")


class WrongVersion(RawReplica):
    """Welcomes with a protocol version of its own."""

    def welcome(self) -> codec.Welcome:
        return codec.Welcome(PROTOCOL_VERSION + 1, 1, INFO, ack_window=32)


class GoesSilent(RawReplica):
    """Welcomes, listens, and says nothing any more."""


class Babbles(RawReplica):
    """Answers a submit with bytes of the test's choice."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = data

    async def hear(self, context: Any, up: codec.Up) -> None:
        if up.submits:
            await self.send_bytes(self._data)
