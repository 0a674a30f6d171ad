"""Answers that a replica may hold back, so that more of their tokens go together."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from protos import codec
from protos.types import Finish, FinishReason
from replicas.engine import Delta
from replicas.replica_server import ReplicaServer
from tests.fakes import SilentEngine
from tests.harness import Worker, answers_of, engine_of, serving, submit_of, worker_at
from tests.loops import until

DONE = Finish(FinishReason.STOP, completion_tokens=4)
HOLD_MS = 250


class Bench:
    """A replica whose engine and clock the test holds, and a worker with one request of two sequences."""

    def __init__(self, engine: SilentEngine, worker: Worker) -> None:
        self.engine = engine
        self.worker = worker
        self.now = 100.0

    def say(self, *tokens: int, index: int = 0, after: float = 0.0, **fields: Any) -> None:
        """Let so many seconds pass, then give the sequence more tokens."""
        self.now += after
        handle = next(iter(self.engine.submitted))
        deltas = [Delta(handle, index, list(tokens), cached_tokens=0)] if tokens else []
        finishes = [(handle, index, finish) for finish in (fields.pop("finish", None),) if finish is not None]
        self.engine.say(*deltas, finishes=finishes, **fields)


@contextlib.asynccontextmanager
async def asked(hold_ms: int = HOLD_MS, **fields: Any) -> AsyncIterator[Bench]:
    engine = SilentEngine()
    server = ReplicaServer(engine, clock=lambda: bench.now)
    address = await server.start("127.0.0.1:0")
    try:
        async with worker_at(address) as worker:
            bench = Bench(engine, worker)
            await worker.hello()
            await worker.send((1, submit_of(n=2, hold_ms=hold_ms, **fields)))
            await engine.asked.wait()
            yield bench
    finally:
        await server.close()


def messages_with_tokens(worker: Worker) -> list[list[int]]:
    return [list(step.tokens) for step in worker.steps if step.tokens]


async def test_an_answer_that_may_be_held_comes_at_its_end() -> None:
    async with asked() as bench:
        bench.say(10, 11)
        bench.say(20, index=1)
        bench.say(12, finish=DONE)
        await bench.worker.finished(1)
        # The other sequence may go on, and what it has stays back.
        assert messages_with_tokens(bench.worker) == [[10, 11, 12]]
        bench.say(21, finish=DONE, index=1)
        await bench.worker.finished(1, 2)
        assert bench.worker.tokens == {1: [10, 11, 12], 2: [20, 21]}
        assert len(messages_with_tokens(bench.worker)) == 2


async def test_what_is_held_long_enough_goes_with_the_next_tokens() -> None:
    async with asked() as bench:
        bench.say(10)
        bench.say(20, index=1, after=0.1)
        bench.say(11, after=0.16)
        await until_tokens(bench.worker, 3)
        assert bench.worker.tokens == {1: [10, 11], 2: [20]}
        bench.say(12, after=0.24)
        bench.say(finish=DONE)
        await bench.worker.finished(1)
        assert messages_with_tokens(bench.worker) == [[10, 11, 20], [12]]


async def test_nothing_is_held_that_may_not_be() -> None:
    async with asked(hold_ms=0) as bench:
        for number in range(3):
            bench.say(number)
            await until_tokens(bench.worker, number + 1)
        assert messages_with_tokens(bench.worker) == [[0], [1], [2]]


async def test_an_engine_that_is_lost_says_first_what_was_held() -> None:
    async with asked() as bench:
        bench.say(10, 11)
        bench.say(finish=Finish(FinishReason.ERROR))
        await bench.worker.finished(1)
        assert bench.worker.tokens[1] == [10, 11]


async def test_a_cancelled_request_holds_nothing() -> None:
    async with asked() as bench:
        bench.say(10)
        await bench.worker.send(cancels=[1])
        await until(lambda: bool(bench.engine.cancelled))
        for index in (0, 1):
            bench.say(finish=Finish(FinishReason.CANCELLED), index=index)
        await bench.worker.finished(1, 2)


async def test_a_replica_that_does_not_know_of_holding_sends_tokens_as_they_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decode = codec.decode_up

    def decode_as_before(data: bytes) -> codec.Up:
        up = decode(data)
        up.submits = [(stream_id, replace(submit, hold_ms=0)) for stream_id, submit in up.submits]
        return up

    monkeypatch.setattr(codec, "decode_up", decode_as_before)
    async with asked() as bench:
        bench.say(10)
        await until_tokens(bench.worker, 1)
        bench.say(11, finish=DONE)
        await bench.worker.finished(1)
        assert messages_with_tokens(bench.worker) == [[10], [11]]


async def test_the_simulated_engine_sends_a_held_answer_in_one_message() -> None:
    submit = submit_of(128, delta_interval=32, hold_ms=60_000)
    async with serving(engine_of()) as (_, address), worker_at(address) as worker:
        await worker.hello()
        await worker.send((1, submit))
        await worker.finished(1)
        assert messages_with_tokens(worker) == await answers_of(submit)
        # The start is told with it, before the end.
        assert [start for step in worker.steps for start in step.starts] == [(1, 0)]


async def until_tokens(worker: Worker, count: int) -> None:
    while sum(map(len, worker.tokens.values())) < count:
        await worker.step()
