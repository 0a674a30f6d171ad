import asyncio
import logging
from collections.abc import Awaitable, Callable

import grpc
import pytest

from protos import codec
from protos.types import PROTOCOL_VERSION, Finish, FinishReason, Load
from replicas.engine import Delta
from replicas.replica_server import ACK_WINDOW, MAX_SEQUENCES, AddressInUse, ReplicaServer
from replicas.serve_pool import serve_pool
from tests.fakes import DiesAfter, SilentEngine, StopsByItself
from tests.harness import MODEL, Worker, answers_of, engine_of, gated_engine, serving, submit_of, worker_at
from tests.loops import until

Act = Callable[[Worker], Awaitable[object]]


async def test_a_session_that_says_nothing_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replicas.replica_server.HELLO_SECONDS", 0.05)

    async with serving(engine_of()) as (_, address), worker_at(address) as worker:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await worker.read()
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_the_welcome_says_what_the_replica_is() -> None:
    async with serving(engine_of(), epoch=42) as (_, address), worker_at(address) as worker:
        welcome = await worker.hello()
        assert (welcome.protocol_version, welcome.epoch, welcome.ack_window) == (PROTOCOL_VERSION, 42, ACK_WINDOW)
        assert (welcome.info.model, welcome.info.engine) == (MODEL, "simulated")
        first = await worker.step()
        assert first.load is not None
        assert first.load.kv_blocks_total == welcome.info.kv_blocks_total


async def _two_hellos(worker: Worker) -> None:
    await worker.hello()
    await worker.hello()


async def _after_hello(worker: Worker, data: bytes) -> None:
    await worker.hello()
    await worker.write(data)


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (lambda w: w.write(b"\xff\xff"), grpc.StatusCode.INVALID_ARGUMENT),
        (lambda w: w.write(b""), grpc.StatusCode.INVALID_ARGUMENT),
        (lambda w: w.send((1, submit_of())), grpc.StatusCode.INVALID_ARGUMENT),
        (lambda w: w.write(codec.encode_hello(codec.Hello(7, "w", False))), grpc.StatusCode.FAILED_PRECONDITION),
        (lambda w: _after_hello(w, b"\xff\xff"), grpc.StatusCode.INVALID_ARGUMENT),
        (
            lambda w: _after_hello(w, codec.encode_hello(codec.Hello(PROTOCOL_VERSION, "w", False))),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        (lambda w: _after_hello(w, codec.encode_up([(1, submit_of(n=0))], [], 0)), grpc.StatusCode.INVALID_ARGUMENT),
        (
            lambda w: _after_hello(w, codec.encode_up([(1, submit_of(n=MAX_SEQUENCES + 1))], [], 0)),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        (
            lambda w: _after_hello(w, codec.encode_up([(1, submit_of()), (1, submit_of())], [], 0)),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        (
            lambda w: _after_hello(w, codec.encode_up([(1, submit_of(n=3)), (3, submit_of())], [], 0)),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
    ],
    ids=[
        "garbage",
        "nothing",
        "no hello",
        "another version",
        "garbage later",
        "a second hello",
        "no sequences",
        "too many sequences",
        "one stream twice",
        "overlapping streams",
    ],
)
async def test_what_is_not_the_protocol_ends_the_session_with_a_reason(act: Act, code: grpc.StatusCode) -> None:
    engine = SilentEngine()
    async with serving(engine) as (server, address), worker_at(address) as worker:
        await act(worker)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            while await worker.read() is not grpc.aio.EOF:
                pass
        assert caught.value.code() is code
        assert caught.value.details()
        await until(lambda: set(engine.cancelled) == set(engine.submitted))
        assert not server._owners
        await until(lambda: not server._sessions)
        async with worker_at(address) as other:
            await other.hello()


async def test_a_drained_server_finishes_the_old_and_refuses_the_new() -> None:
    engine, gate = gated_engine()
    async with serving(engine) as (server, address), worker_at(address) as worker:
        await worker.hello()
        await worker.send((1, submit_of(5)))
        gate.let(2)
        await until(lambda: server._owners)
        draining = asyncio.create_task(server.drain(10))
        while not (worker.steps and worker.steps[-1].load and worker.steps[-1].load.draining):
            await worker.step()
        await worker.send((2, submit_of(n=2)))
        await worker.finished(2, 3)
        for stream_id in (2, 3):
            failure = worker.finishes[stream_id].failure
            assert failure is not None
            assert failure.code == "draining"
        assert not draining.done()
        gate.open()
        await worker.finished(1)
        assert len(worker.tokens[1]) == 5
        await draining


async def test_draining_gives_up_after_its_grace() -> None:
    async with serving(SilentEngine()) as (server, address), worker_at(address) as worker:
        await worker.hello()
        await worker.send((1, submit_of()))
        await until(lambda: server._owners)
        await server.drain(0.01)


async def test_what_was_gathered_is_sent_before_the_connections_close() -> None:
    engine = SilentEngine()
    async with serving(engine) as (server, address), worker_at(address) as worker:
        await worker.hello()
        await worker.send((1, submit_of()))
        await until(lambda: engine.submitted)
        engine.say(Delta(1, 0, [5, 6]), finishes=[(1, 0, Finish(FinishReason.STOP))])
        closing = asyncio.create_task(server.close())
        await worker.finished(1, ack=False)
        assert worker.tokens[1] == [5, 6]
        await closing


@pytest.mark.parametrize("engine_type", [lambda: DiesAfter(3), StopsByItself])
async def test_a_lost_engine_fails_all_streams_at_once(
    engine_type: Callable[[], SilentEngine], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        async with (
            serving(engine_type()) as (server, address),
            worker_at(address) as one,
            worker_at(address) as two,
        ):
            await one.hello()
            await two.hello()
            await asyncio.gather(one.send((1, submit_of(n=3))), two.send((9, submit_of())))
            assert isinstance(await server.failed, RuntimeError)
            await one.finished(1, 2, 3)
            await two.finished(9)
            for finish in [*one.finishes.values(), *two.finishes.values()]:
                assert finish.reason is FinishReason.ERROR
                assert finish.failure is not None
                assert finish.failure.code in ("engine_error", "draining")
                assert "secret" not in finish.failure.message
            await one.send((20, submit_of()))
            await one.finished(20)
            await server.drain(1)
            assert not server._owners
    assert "engine is lost" in caplog.text


async def test_a_session_that_ends_cancels_only_its_own_requests() -> None:
    engine = SilentEngine()
    async with serving(engine) as (server, address), worker_at(address) as staying:
        await staying.hello()
        await staying.send((1, submit_of(name="kept")))
        async with worker_at(address) as leaving:
            await leaving.hello()
            await leaving.send((1, submit_of(name="a")), (2, submit_of(name="b", n=2)))
            await until(lambda: len(engine.submitted) == 3)
        await until(lambda: len(engine.cancelled) == 2)
        assert {engine.submitted[h].request_id for h in engine.cancelled} == {"a", "b"}
        assert len(server._owners) == 1
        kept = next(h for h, r in engine.submitted.items() if r.request_id == "kept")
        # What the engine still says of the others goes nowhere; the session that stayed hears its own.
        engine.say(*(Delta(h, 0, [h]) for h in engine.submitted))
        await until(lambda: server._sessions)
        while 1 not in staying.tokens:
            await staying.step()
        assert staying.tokens == {1: [kept]}


async def test_cancels_reach_the_engine_and_unknown_ones_do_not() -> None:
    engine, gate = gated_engine()
    async with serving(engine) as (_, address), worker_at(address) as worker:
        await worker.hello()
        await worker.send((1, submit_of(900, prompt=range(100))), (2, submit_of(4)))
        gate.let(3)
        while 1 not in worker.tokens:
            await worker.step()
        await worker.send(cancels=[1, 1, 77])
        while not {1, 2} <= worker.finishes.keys():
            gate.let(1)
            await worker.step()
        assert worker.finishes[1].reason is FinishReason.CANCELLED
        assert worker.finishes[2].reason is FinishReason.LENGTH
        load = worker.steps[-1].load
        assert load is not None
        assert (load.running, load.waiting, load.kv_blocks_used, load.tokens_in_flight) == (0, 0, 0, 0)
        await worker.send((1, submit_of(2)), cancels=[2])


async def test_a_worker_that_does_not_acknowledge_gets_merged_steps_and_every_token() -> None:
    requests = [submit_of(400, prompt=[i]) for i in range(3)]

    expected = await answers_of(*requests)
    async with serving(engine_of()) as (server, address), worker_at(address) as worker:
        await worker.hello()
        await worker.send(*((10 + i, request) for i, request in enumerate(requests)))
        await until(lambda: server._handles == 3)
        await server.drain(10)  # the engine has said all that it will
        while len(worker.steps) < ACK_WINDOW and len(worker.finishes) < 3:
            await worker.step(ack=False)
        # The window is closed: only an acknowledgement opens it, and the rest comes merged.
        await worker.send(ack=len(worker.steps))
        await worker.finished(10, 11, 12, ack=False)
        assert len(worker.steps) <= ACK_WINDOW + 2
        assert [worker.tokens[10 + i] for i in range(3)] == expected
        assert worker.finishes.keys() == {10, 11, 12}


async def test_an_idle_session_still_hears_a_heartbeat_and_a_changed_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replicas.replica_server.HEARTBEAT_SECONDS", 0.005)
    monkeypatch.setattr("replicas.replica_server.MAX_SILENCE_SECONDS", 0.02)

    engine = SilentEngine()
    async with serving(engine) as (_, address), worker_at(address) as worker:
        await worker.hello()
        for _ in range(5):
            assert (await worker.step()).load == Load(kv_blocks_total=engine.info.kv_blocks_total, workers=1)
        engine.say(load=Load(running=9))
        while (await worker.step()).load != Load(running=9, workers=1, steps=1):
            pass


async def test_output_that_cannot_be_encoded_ends_the_session_with_a_reason(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        engine = SilentEngine()
        async with serving(engine) as (_, address), worker_at(address) as worker:
            await worker.hello()
            await worker.send((1, submit_of()))
            await until(lambda: engine.submitted)
            engine.say(Delta(1, 0, [-1]))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                while True:
                    await worker.step()
            assert caught.value.code() is grpc.StatusCode.INTERNAL
            await until(lambda: engine.cancelled)
    assert "cannot be sent" in caplog.text


async def test_a_taken_address_is_said_plainly() -> None:
    async with serving(SilentEngine()) as (_, address):
        other = ReplicaServer(SilentEngine())
        with pytest.raises(AddressInUse, match=address):
            await other.start(address)
        await other.close()


@pytest.mark.parametrize(("broken", "status"), [(False, 0), (True, 1)])
async def test_a_pool_ends_with_its_status_and_lets_neighbours_finish(broken: bool, status: int) -> None:
    stop, addresses = asyncio.Event(), asyncio.get_running_loop().create_future()
    engine, gate = gated_engine()
    pool = asyncio.create_task(
        serve_pool(
            [("127.0.0.1:0", engine), ("127.0.0.1:0", DiesAfter(0))],
            drain_seconds=10,
            stop=stop,
            ready=addresses.set_result,
        )
    )
    good, dying = await addresses
    async with worker_at(good) as one, worker_at(dying) as two:
        await one.hello()
        await two.hello()
        await one.send((1, submit_of(4)))
        gate.let(2)
        while not one.tokens:
            await one.step()
        if broken:
            await two.send((1, submit_of()))
        else:
            stop.set()
        while not (one.steps[-1].load and one.steps[-1].load.draining):
            await one.step()
        gate.open()
        await one.finished(1, ack=False)  # the server closes right after it
        assert len(one.tokens[1]) == 4
    assert await pool == status
