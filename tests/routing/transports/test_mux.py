import asyncio
import contextlib
from collections.abc import AsyncIterator

import grpc
import pytest

import routing.transports.mux
from protos import codec
from protos.errors import ReplicaUnavailable
from protos.types import Finish, FinishReason
from routing.transports.mux import Session, SessionRefused
from tests.fakes import Babbles, DropsStream, GoesSilent, RawReplica, SilentEngine, WrongVersion
from tests.harness import answers_of, drained, engine_of, gated_engine, serving, submit_of
from tests.loops import until


def ignored(_: object) -> None:
    """Ignore a step or a membership."""


@contextlib.asynccontextmanager
async def session_at(address: str) -> AsyncIterator[tuple[Session, list[codec.Step]]]:
    steps: list[codec.Step] = []
    session = await Session.connect(address, "test", steps.append, ignored)
    task = asyncio.create_task(session.run())
    try:
        yield session, steps
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_many_streams_at_once_each_get_their_own_tokens() -> None:
    requests = [submit_of(5 + i % 7, prompt=[i, i + 1], name=f"r{i}", n=1 + i % 3) for i in range(120)]

    expected = iter(await answers_of(*requests))
    async with serving(engine_of()) as (_, address), session_at(address) as (session, _):
        streams = [session.open(request) for request in requests]
        answers = await asyncio.gather(*(drained(s, r.sampling.n) for s, r in zip(streams, requests, strict=True)))
        for request, (tokens, finishes) in zip(requests, answers, strict=True):
            assert tokens == [next(expected) for _ in range(request.sampling.n)]
            assert all(finish.reason is FinishReason.LENGTH for finish in finishes)
        for stream in streams:
            stream.close()
        assert session.streams == 0


async def test_what_falls_in_one_tick_travels_as_one_message() -> None:
    replica = RawReplica()
    async with replica.listening() as address, session_at(address) as (session, _):
        streams = [session.open(submit_of(name=f"r{i}")) for i in range(50)]
        streams[7].close()
        await until(lambda: replica.ups)
        for stream in streams:
            stream.close()
        await until(lambda: sum(len(up.cancels) for up in replica.ups) == 50)
        assert [len(up.submits) for up in replica.ups] == [50, 0]
        # A submit and its cancel in one tick: the replica sees both, the submit first.
        first_streams = [stream_id for stream_id, _ in replica.ups[0].submits]
        assert replica.ups[0].cancels == [first_streams[7]]
        assert len(set(first_streams)) == 50


async def test_closing_a_stream_frees_its_blocks_in_the_engine() -> None:
    engine, gate = gated_engine()
    async with serving(engine) as (_, address), session_at(address) as (session, steps):
        stream = session.open(submit_of(500, prompt=range(200), n=2))
        gate.let(6)
        await until(lambda: any(step.load and step.load.running == 2 for step in steps))
        assert any(step.load and step.load.kv_blocks_used for step in steps)
        stream.close()
        stream.close()
        gate.open()
        await until(lambda: steps[-1].load and steps[-1].load.running == 0)
        assert steps[-1].load is not None
        assert steps[-1].load.kv_blocks_used == 0
        assert steps[-1].load.tokens_in_flight == 0
        assert sum(len(step.tokens) for step in steps) < 2 * 500
        assert session.streams == 0


async def test_a_reader_that_falls_behind_is_cancelled_upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("routing.transports.inbox.MAX_WAITING", 16)

    async with serving(engine_of()) as (_, address), session_at(address) as (session, steps):
        stream = session.open(submit_of(30_000))
        await until(lambda: stream.failed)
        await until(lambda: steps[-1].load and steps[-1].load.running == 0)
        assert sum(len(step.tokens) for step in steps) < 30_000


async def test_a_finished_stream_is_not_cancelled() -> None:
    replica = RawReplica()
    async with replica.listening() as address, session_at(address) as (session, _):
        stream = session.open(submit_of(1))
        await replica.heard.wait()
        await replica.send(codec.Step(1, 0, [1], [], [42], finishes=[(1, Finish(FinishReason.LENGTH))]))
        assert await drained(stream) == ([[42]], [Finish(FinishReason.LENGTH)])
        stream.close()
        other = session.open(submit_of(1))
        await until(lambda: len(replica.ups) >= 2)
        assert [up.cancels for up in replica.ups] == [[], []]
        other.close()


async def test_tokens_of_unknown_streams_are_ignored() -> None:
    replica = RawReplica()
    async with replica.listening() as address, session_at(address) as (session, steps):
        stream = session.open(submit_of(2))
        await replica.heard.wait()
        late = codec.Step(1, 0, [900, 1], [2, 1], [5, 6, 7], finishes=[(900, Finish(FinishReason.STOP))])
        await replica.send(late, codec.Step(2, 0, [901, 1], [], [8, 9]))
        await until(lambda: len(steps) == 2)
        assert [event[1] for event in await stream.receive()] == [[7], (9,)]
        stream.close()


async def test_acknowledgements_come_before_the_window_closes() -> None:
    replica = RawReplica()
    async with replica.listening() as address, session_at(address) as (_, steps):
        await until(lambda: replica._contexts)
        for seq in range(1, 33):
            await replica.send(codec.Step(seq))
        await until(lambda: len(steps) == 32)
        await until(lambda: replica.ups and replica.ups[-1].ack >= 24)
        assert len(replica.ups) <= 8


@pytest.mark.parametrize("tokens", [0, 3])
async def test_a_lost_session_fails_its_streams(tokens: int) -> None:
    async with DropsStream(tokens).listening() as address, session_at(address) as (session, _):
        streams = [session.open(submit_of()) for _ in range(3)]
        for stream in streams:
            with pytest.raises(ReplicaUnavailable) as caught:
                await drained(stream)
            assert "10.0.0.7" not in caught.value.message
            stream.close()
        assert session.streams == 0
        with pytest.raises(ReplicaUnavailable):
            session.open(submit_of())


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff",
        b"",
        b"\x12\x04\x1a\x02\x01\x02",
    ],
    ids=["not protobuf", "neither welcome nor step", "streams without tokens"],
)
async def test_a_replica_that_babbles_loses_its_session(data: bytes) -> None:
    async with Babbles(data).listening() as address, session_at(address) as (session, _):
        stream = session.open(submit_of())
        with pytest.raises(ReplicaUnavailable):
            await stream.receive()
        stream.close()


async def test_a_submit_that_cannot_be_encoded_does_not_silence_the_session() -> None:
    async with serving(engine_of()) as (_, address), session_at(address) as (session, _):
        poison, good = session.open(submit_of(prompt=[1 << 40])), session.open(submit_of(3))
        # Whether the poison alone fails or the whole session: nobody may be left to wait for ever.
        outcomes = await asyncio.gather(drained(poison), drained(good), return_exceptions=True)
        assert isinstance(outcomes[0], Exception)
        # What never left will never be reported, so it must not stay among what was sent.
        await until(lambda: session.unreported.sums[0] == 0)
        poison.close()
        good.close()


async def test_silence_ends_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing.transports.mux, "SILENCE_SECONDS", 0.05)

    async with GoesSilent().listening() as address:
        session = await Session.connect(address, "test", ignored, ignored)
        ends = asyncio.create_task(session.run())
        with pytest.raises(ReplicaUnavailable):
            await session.open(submit_of()).receive()
        assert await ends == "silent for 0.05 s"


async def test_a_quiet_replica_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replicas.replica_server.HEARTBEAT_SECONDS", 0.01)
    monkeypatch.setattr("replicas.replica_server.MAX_SILENCE_SECONDS", 0.02)
    monkeypatch.setattr(routing.transports.mux, "SILENCE_SECONDS", 0.5)

    async with serving(SilentEngine()) as (_, address), session_at(address) as (session, steps):
        stream = session.open(submit_of())
        await until(lambda: len(steps) > 60)
        assert not stream.failed
        stream.close()


async def test_another_protocol_version_is_refused() -> None:
    async with WrongVersion().listening() as address:
        with pytest.raises(SessionRefused, match="version"):
            await Session.connect(address, "test", ignored, ignored)


async def test_a_worker_of_another_version_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing.transports.mux, "PROTOCOL_VERSION", 99)

    async with serving(engine_of()) as (_, address):
        with pytest.raises((SessionRefused, grpc.RpcError), match="99"):
            await Session.connect(address, "test", ignored, ignored)


async def test_nobody_listening_is_an_error_of_grpc() -> None:
    with pytest.raises((grpc.RpcError, TimeoutError)):
        await Session.connect("127.0.0.1:1", "test", ignored, ignored)
