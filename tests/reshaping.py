"""What tests of host groups share: replicas in groups, and whoever orders their changes."""

import asyncio
import contextlib
import itertools
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import grpc.aio
import msgspec

from protos import codec
from protos.reshape import Membership, MemberState, Participant, ReshapeOrder, ReshapePhase, Span
from protos.types import PROTOCOL_VERSION, Failure, Finish, FinishReason, Submit
from tests.harness import MODEL
from tests.loops import BOUND_SECONDS, until

GROUP = "host-1"
_OWN_CHANNEL = [("grpc.use_local_subchannel_pool", 1)]


def spans(*widths: int, start: int = 0) -> tuple[Span, ...]:
    """Spans of these widths, one after the other."""
    found = []
    for width in widths:
        found.append(Span(start, width))
        start += width
    return tuple(found)


class _Call:
    """A session's stream, for several that write to it."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._call: Any = channel.stream_stream(codec.SESSION_METHOD)()
        self._writing = asyncio.Lock()

    async def read(self) -> Any:
        return await self._call.read()

    def cancel(self) -> None:
        self._call.cancel()

    async def write(self, data: bytes) -> None:
        async with self._writing:
            await self._call.write(data)


class Lost(Exception):
    """A replica's session has ended."""


class Watched:
    """A session to one replica, as a controller has it: its memberships, and no requests."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.epoch = 0
        self.news: list[Membership] = []
        self.steps: list[codec.Step] = []
        self._changed = asyncio.Event()
        self._channel = grpc.aio.insecure_channel(address, options=_OWN_CHANNEL)
        self._call = _Call(self._channel)
        self._reader: asyncio.Task[None] | None = None

    @property
    def now(self) -> Membership:
        return self.news[-1]

    async def open(self) -> Self:
        hello = codec.Hello(PROTOCOL_VERSION, "controller", kv_updates=False, watches=True)
        await self._call.write(codec.encode_hello(hello))
        welcome = codec.decode_down(await self._call.read())
        assert isinstance(welcome, codec.Welcome)
        assert welcome.membership is not None
        self.epoch = welcome.epoch
        self.news.append(welcome.membership)
        self._reader = asyncio.create_task(self._read())
        return self

    async def order(self, order: ReshapeOrder) -> None:
        await self._call.write(codec.encode_order(order))

    @property
    def lost(self) -> bool:
        """Whether the session has ended."""
        return self._reader is not None and self._reader.done()

    async def until(self, wanted: Callable[[Membership], bool], seconds: float = BOUND_SECONDS) -> Membership:
        """The first membership, from the latest one on, that is as wanted."""
        async with asyncio.timeout(seconds):
            while not wanted(self.now):
                if self.lost:
                    raise Lost
                self._changed.clear()
                await self._changed.wait()
        return self.now

    async def close(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        self._call.cancel()
        await self._channel.close()

    async def _read(self) -> None:
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
            await self._read_on()
        self._changed.set()

    async def _read_on(self) -> None:
        while (data := await self._call.read()) is not grpc.aio.EOF:
            message = codec.decode_down(data)
            if isinstance(message, Membership):
                assert message.revision > self.news[-1].revision
                self.news.append(message)
            elif isinstance(message, codec.Step):
                self.steps.append(message)
                await self._call.write(codec.encode_up([], [], message.seq))
            self._changed.set()


async def watched(address: str, seconds: float = BOUND_SECONDS) -> Watched:
    """A session to a replica, once it listens."""
    async with asyncio.timeout(seconds):
        while True:
            new = Watched(address)
            with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
                return await new.open()
            await new.close()
            await asyncio.sleep(0.05)


class Orderer:
    """Orders the changes of one group, as its controller does."""

    def __init__(self, watched: Sequence[Watched], group: str = GROUP) -> None:
        self.watched = list(watched)
        self.group = group
        self.change = 0

    def order(
        self, phase: ReshapePhase, before: Iterable[Span], after: Iterable[Span], timeout_ms: int = 5000
    ) -> ReshapeOrder:
        before, after = tuple(before), tuple(after)
        inside = [one for one in self.watched if any(s.start <= one.now.gpu < s.end for s in (*before, *after))]
        participants = tuple(Participant(one.address, one.now.gpu, one.epoch) for one in inside)
        return ReshapeOrder(self.change, phase, self.group, before, after, participants, timeout_ms)

    async def all(self, order: ReshapeOrder, whom: Sequence[Watched] = ()) -> None:
        for one in whom or self.of(order):
            with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
                await one.order(order)

    def of(self, order: ReshapeOrder) -> list[Watched]:
        gpus = {one.gpu for one in order.participants}
        return [one for one in self.watched if one.now.gpu in gpus]

    async def again(self, gpu: int, seconds: float = 30.0) -> None:
        """Open a session to the process that has taken the place of one that has ended."""
        old = self.watched[gpu]
        await old.close()
        self.watched[gpu] = await watched(old.address, seconds)

    async def abort(self) -> None:
        """Say that the last change shall not be, to all."""
        order = ReshapeOrder(self.change, ReshapePhase.ABORT, self.group, (), (), ())
        await self.all(order, self.watched)

    async def run(self, before: Iterable[Span], after: Iterable[Span], timeout_ms: int = 5000) -> list[str]:
        """Carry a change out, or have it undone; return what the replicas say went wrong, nothing where it is done.

        Raises an ExceptionGroup of Lost where a session ends.
        """
        before, after = tuple(before), tuple(after)
        self.change += 1
        number = self.change
        order = self.order(ReshapePhase.PREPARE, before, after, timeout_ms)
        all_ = self.of(order)
        await self.all(order)
        said = await self._hear(all_, lambda m: m.change == number and (m.state is MemberState.PREPARED or m.failure))
        if not any(m.failure for m in said):
            await self.all(self.order(ReshapePhase.TRANSFORM, before, after, timeout_ms))
            said = await self._hear(all_, lambda m: _settled(m, number, after))
        failures = [m.failure for m in said if m.failure]
        if failures:
            await self.all(self.order(ReshapePhase.ABORT, before, after, timeout_ms))
            await self._hear(all_, lambda m: m.state in (MemberState.SERVING, MemberState.PARKED))
        return failures

    async def _hear(self, all_: Sequence[Watched], wanted: Callable[[Membership], Any]) -> list[Membership]:
        async with asyncio.TaskGroup() as tasks:
            heard = [tasks.create_task(one.until(lambda m: bool(wanted(m)))) for one in all_]
        return [one.result() for one in heard]


def _settled(membership: Membership, change: int, after: Sequence[Span]) -> bool:
    if membership.change != change or membership.state not in (MemberState.SERVING, MemberState.PARKED):
        return False
    return bool(membership.failure) or membership.span in after


@contextlib.asynccontextmanager
async def orderer_of(addresses: Iterable[str], group: str = GROUP) -> AsyncIterator[Orderer]:
    """A controller with a session to each replica."""
    orderer = Orderer([], group)
    try:
        for address in addresses:
            orderer.watched.append(await watched(address))
        yield orderer
    finally:
        for one in orderer.watched:
            await one.close()


class Follower:
    """A worker by hand over a group's replicas: what is moved or lost goes on from prompt and tokens so far.

    `moves` counts what replicas have moved, and `lost` what went with a session or had no replica that said where.
    """

    def __init__(self, addresses: Iterable[str]) -> None:
        self.addresses = list(addresses)
        self.moves = self.lost = self.cached = 0
        self._memberships: dict[str, Membership] = {}
        self._epochs: dict[int, str] = {}
        self._calls: dict[str, _Call] = {}
        self._open: dict[tuple[str, int], asyncio.Queue[tuple[list[int], Finish | None]]] = {}
        self._streams = itertools.count(1)
        self._tasks: list[asyncio.Task[None]] = []
        self._places = itertools.count()

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._keep(address)) for address in self.addresses]
        await until(lambda: len(self._calls) == len(self.addresses), seconds=60.0)
        return self

    async def __aexit__(self, *exception: object) -> None:
        for task in self._tasks:
            task.cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if not isinstance(ended, asyncio.CancelledError | None):
                raise ended

    async def ask(self, submit: Submit) -> list[int]:
        """The whole answer to a request of one sequence, whatever happens to the replicas."""
        tokens: list[int] = []
        wanted = 0
        while True:
            address = await self._place(wanted)
            stream = next(self._streams)
            inbox = self._open[address, stream] = asyncio.Queue()
            try:
                await self._calls[address].write(codec.encode_up([(stream, _continued(submit, tokens))], [], 0))
                while True:
                    new, finish = await inbox.get()
                    tokens += new
                    if finish is not None:
                        break
            except (grpc.RpcError, asyncio.InvalidStateError):
                finish = _LOST
                await asyncio.sleep(0.01)
            finally:
                self._open.pop((address, stream), None)
            if finish.failure is None:
                self.cached += finish.cached_tokens
                return tokens
            assert finish.failure.code in ("moved", "lost"), finish
            wanted = finish.failure.moved_to
            self.moves += bool(wanted)
            self.lost += not wanted

    async def _place(self, epoch: int) -> str:
        while True:
            address = self._epochs.get(epoch)
            able = [one for one in self._calls if not self._memberships[one].served_by]
            if address in able:
                return address
            if able:
                return able[next(self._places) % len(able)]
            await asyncio.sleep(0.01)

    async def _keep(self, address: str) -> None:
        """Hold a session to one replica, and open another one whenever it ends."""
        while True:
            with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
                async with grpc.aio.insecure_channel(
                    address, options=[("grpc.use_local_subchannel_pool", 1)]
                ) as channel:
                    try:
                        await self._session(address, _Call(channel))
                    finally:
                        self._calls.pop(address, None)
            for (at, _), inbox in self._open.items():
                if at == address:
                    inbox.put_nowait(([], _LOST))
            await asyncio.sleep(0.05)

    async def _session(self, address: str, call: _Call) -> None:
        await call.write(codec.encode_hello(codec.Hello(PROTOCOL_VERSION, "by-hand", kv_updates=False)))
        welcome = codec.decode_down(await call.read())
        assert isinstance(welcome, codec.Welcome)
        assert welcome.membership is not None
        self._epochs[welcome.epoch] = address
        self._memberships[address] = welcome.membership
        self._calls[address] = call
        while (data := await call.read()) is not grpc.aio.EOF:
            message = codec.decode_down(data)
            if isinstance(message, Membership):
                self._memberships[address] = message
            elif isinstance(message, codec.Step):
                self._deal(address, message)
                await call.write(codec.encode_up([], [], message.seq))

    def _deal(self, address: str, step: codec.Step) -> None:
        at = 0
        for stream, count in zip(step.stream_ids, step.counts or [1] * len(step.stream_ids), strict=True):
            self._open[address, stream].put_nowait((list(step.tokens[at : at + count]), None))
            at += count
        for stream, finish in step.finishes:
            moved = finish.failure is not None and finish.failure.code == "moved"
            if moved and not self._memberships[address].served_by:
                # Only one that is parked, or has lost or given away GPUs, moves anything.
                assert self._memberships[address].change
            self._open[address, stream].put_nowait(([], finish))


_LOST = Finish(FinishReason.ERROR, failure=Failure("lost", "the session has ended"))


def _continued(submit: Submit, tokens: list[int]) -> Submit:
    return msgspec.structs.replace(
        submit,
        prompt_ids=[*submit.prompt_ids, *tokens],
        max_tokens=submit.max_tokens - len(tokens),
        generated=len(tokens),
    )


class MemberProcess:
    """One `penstock replica` of a group, which a test may kill and start again."""

    def __init__(self, gpu: int, gpus: int, address: str, *options: str) -> None:
        self.gpu, self.address = gpu, address
        self._command = [sys.executable, "-m", "gateway.cli.main", "replica", "--engine", "simulated", "--model", MODEL]
        self._command += ["--listen", address, "--group", GROUP, "--group-gpus", str(gpus), "--gpu", str(gpu), *options]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None
        return self._process

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def processes(folder: Path, gpus: int, *options: str) -> Iterator[list[MemberProcess]]:
    """A group of narrow replicas in processes of their own."""
    found = [MemberProcess(gpu, gpus, f"unix:{folder}/gpu{gpu}.sock", *options) for gpu in range(gpus)]
    try:
        for one in found:
            one.start()
        yield found
    finally:
        for one in found:
            one.kill()
