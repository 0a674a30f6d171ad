"""Fakes of the replicas of one host group: they change their shape as a test says, without an engine."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import patch

import msgspec

from protos import codec
from protos.reshape import Membership, MemberState, MemberWidth, Span
from protos.types import PROTOCOL_VERSION, Failure, Finish, FinishReason, KvUpdate, Load, Shape, Submit
from routing.health.probe import PROBE
from tests.fakes import RawReplica, info_of

#: KV blocks of a replica on one GPU.
BLOCKS = 1024
NARROW = info_of(shape=Shape(tp=1))


class GroupedReplica(RawReplica):
    """A replica on one GPU of a group. What it is given stays open until the test says a token or an end."""

    def __init__(self, gpu: int, gpus: int = 2) -> None:
        super().__init__()
        self.epoch = 100 + gpu
        self.steps = 0
        #: What it was given, by session and stream.
        self.open: dict[tuple[int, int], Submit] = {}
        self.membership = Membership(
            "node-1",
            gpus,
            gpu,
            MemberState.SERVING,
            Span(gpu, 1),
            msgspec.structs.replace(NARROW, kv_blocks_total=BLOCKS),
            widths=tuple(MemberWidth(width, kv_tokens(width)) for width in (1, 2, 4) if width <= gpus),
        )

    @property
    def given(self) -> list[Submit]:
        """What is open."""
        return list(self.open.values())

    def welcome(self) -> codec.Welcome:
        return codec.Welcome(PROTOCOL_VERSION, self.epoch, self.membership.info, 32, self.membership)

    async def hear(self, context: Any, up: codec.Up) -> None:
        session = self._contexts.index(context)
        for stream_id, submit in up.submits:
            if submit.request_id == PROBE.request_id:
                finish = Finish(FinishReason.LENGTH, 1, 0, 1)
                await self._say(session, stream_ids=[stream_id], tokens=[1], finishes=[(stream_id, finish)])
            else:
                self.open[session, stream_id] = submit
        for stream_id in up.cancels:
            self.open.pop((session, stream_id), None)

    async def say(self, *tokens: int, end: Finish | None = None, kv_update: KvUpdate | None = None) -> None:
        """Give all open streams these tokens, one a step, and an end."""
        for token in tokens:
            await self._say_all(tokens=[token])
        if end is not None or kv_update is not None:
            await self._say_all(end=end, kv_update=kv_update)

    async def report(self, **load: Any) -> None:
        """Report a load on each session."""
        whole = Load(kv_blocks_total=self.membership.info.kv_blocks_total, steps=self.steps, **load)
        for session in range(len(self._contexts)):
            await self._say(session, load=whole)

    async def stand(self, **changes: Any) -> None:
        """Change how it stands in its group, and say so on each session."""
        self.membership = msgspec.structs.replace(self.membership, revision=self.membership.revision + 1, **changes)
        for session in range(len(self._contexts)):
            await self.send_bytes_to(session, codec.encode_membership(self.membership))

    async def serve(self, span: Span, **changes: Any) -> None:
        """Serve a span from now on."""
        info = msgspec.structs.replace(
            NARROW,
            shape=Shape(tp=span.width),
            kv_blocks_total=kv_tokens(span.width) // NARROW.kv_block_tokens,
            max_sequence_tokens=kv_tokens(span.width),
        )
        await self.stand(state=MemberState.SERVING, span=span, info=info, served_by=0, **changes)

    async def park(self, leader: "GroupedReplica", span: Span, **changes: Any) -> None:
        """Give all that is open to a leader, and be parked."""
        await self.stand(state=MemberState.PARKED, span=span, served_by=leader.epoch, **changes)
        await self.move(leader)

    async def move(self, taker: "GroupedReplica") -> None:
        """End all that is open, as moved."""
        failure = Failure("moved", f"to GPU {taker.membership.gpu}", moved_to=taker.epoch)
        await self._say_all(end=Finish(FinishReason.ERROR, failure=failure))

    async def _say_all(
        self, tokens: list[int] | None = None, end: Finish | None = None, kv_update: KvUpdate | None = None
    ) -> None:
        for session in range(len(self._contexts)):
            ids = [stream_id for at, stream_id in self.open if at == session]
            finishes = [(stream_id, end) for stream_id in ids] if end is not None else []
            await self._say(
                session,
                stream_ids=ids if tokens else [],
                tokens=(tokens or []) * len(ids),
                finishes=finishes,
                kv_update=kv_update,
            )
        if end is not None:
            self.open.clear()

    async def _say(self, session: int, **parts: Any) -> None:
        self.steps += 1
        await self.send_bytes_to(session, codec.encode_step(codec.Step(self.steps, **parts)))


def kv_tokens(width: int) -> int:
    """Tokens that a replica of a width holds: weights take less of each GPU, so more than in proportion."""
    return (BLOCKS * width + BLOCKS // 2 * (width - 1)) * NARROW.kv_block_tokens


@contextlib.asynccontextmanager
async def group_of(gpus: int = 2) -> AsyncIterator[tuple[list[GroupedReplica], list[str]]]:
    """The replicas of a group, each on its own GPU, and their addresses. They speak when they are told to alone."""
    replicas = [GroupedReplica(gpu, gpus) for gpu in range(gpus)]
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(patch("routing.transports.mux.SILENCE_SECONDS", 3600.0))
        yield replicas, [await stack.enter_async_context(replica.listening()) for replica in replicas]
