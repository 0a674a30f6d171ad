import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

import routing.transports.session_transport
from protos import codec
from protos.errors import ReplicaUnavailable
from protos.types import Load, ReplicaInfo, Role, Shape
from routing.fleet.fleet import Fleet
from routing.transports.replica_connection import TransportContext
from routing.transports.replica_spec import ReplicaSpec
from routing.transports.session_transport import ASSUMED_NUM_TOKENS, SessionConnection
from routing.transports.unreported import Unreported
from tests.fakes import DropsStream, RawReplica, SilentEngine, WrongVersion, info_of
from tests.harness import drained, engine_of, gated_engine, serving, spec_of, submit_of
from tests.loops import until


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing.transports.session_transport, "FIRST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(routing.transports.session_transport, "LAST_RETRY_SECONDS", 0.02)


@contextlib.asynccontextmanager
async def fleet_of(*specs: ReplicaSpec, ready: int = 1) -> AsyncIterator[Fleet]:
    fleet = Fleet(specs, "test")
    fleet.start()
    try:
        await fleet.wait_ready(ready)
        yield fleet
    finally:
        await fleet.aclose()


async def test_replicas_are_reached_over_unix_sockets_and_tcp(state_dir: Path) -> None:
    async with (
        serving(engine_of(), f"unix:{state_dir}/r.sock") as (_, by_socket),
        serving(engine_of()) as (_, by_port),
        fleet_of(spec_of(by_socket, id="p/0"), spec_of(f"grpc://{by_port}", id="p/1"), ready=2) as fleet,
    ):
        assert [view.id for view in fleet.candidates()] == ["p/0", "p/1"]
        assert [view.id for view in fleet.candidates(exclude=["p/0"])] == ["p/1"]
        assert fleet.problems() == {}
        answers = [await drained(fleet.open(name, submit_of(20))) for name in ("p/0", "p/1")]
        assert answers[0][0] == answers[1][0]
        assert fleet.fingerprint("p/0") == "simulated-mixtral-8x7b-tp2"
        with pytest.raises(ReplicaUnavailable):
            fleet.open("p/2", submit_of())


@pytest.mark.parametrize(
    ("info", "named"),
    [
        (info_of(model="llama"), "model is llama, configured mixtral-8x7b"),
        (info_of(engine="trtllm"), "engine is trtllm, configured simulated"),
        (info_of(shape=Shape(tp=4, ep=2)), "shape is tp4 ep2, configured tp2"),
        (info_of(role=Role.PREFILL), "role is prefill, configured both"),
    ],
)
async def test_a_replica_that_is_not_the_configured_one_is_refused_by_name(info: ReplicaInfo, named: str) -> None:
    async with serving(SilentEngine(info)) as (_, address), fleet_of(spec_of(address), ready=0) as fleet:
        await until(lambda: named in fleet.problems()["pool/0"], lambda: str(fleet.problems()))
        assert not fleet.ready
        assert fleet.candidates() == []


async def test_the_protocol_version_is_among_the_problems() -> None:
    async with WrongVersion().listening() as address, fleet_of(spec_of(address), ready=0) as fleet:
        await until(lambda: "version" in fleet.problems()["pool/0"])


async def test_a_fleet_without_replicas_says_why_and_closes() -> None:
    async with fleet_of(spec_of("127.0.0.1:1"), ready=0) as fleet:
        assert fleet.problems() == {"pool/0": "not connected yet"}
        await until(lambda: "127.0.0.1:1: Failed to connect" in fleet.problems()["pool/0"])
        with pytest.raises(ReplicaUnavailable):
            fleet.open("pool/0", submit_of())


async def test_a_restarted_replica_is_found_again(state_dir: Path) -> None:
    address = f"unix:{state_dir}/r.sock"

    async with fleet_of(spec_of(address), ready=0) as fleet:
        engine, gate = gated_engine()
        async with serving(engine, address, epoch=1):
            await fleet.wait_ready(1)
            stream = fleet.open("pool/0", submit_of(100))
            gate.let(2)
            await until(lambda: fleet.candidates()[0].load.running)
        with pytest.raises(ReplicaUnavailable):
            await drained(stream)
        await until(lambda: not fleet.ready)
        assert "lost" in fleet.problems()["pool/0"] or "UNAVAILABLE" in fleet.problems()["pool/0"]
        async with serving(engine_of(), address, epoch=2):
            await fleet.wait_ready(1)
            # Nothing of the earlier engine's load is left.
            assert fleet.candidates()[0].load.running == 0
            assert fleet.candidates()[0].sent == 0
            tokens, _ = await drained(fleet.open("pool/0", submit_of(5)))
            assert len(tokens[0]) == 5


async def test_a_dropped_session_is_reopened() -> None:
    replica = DropsStream()
    async with replica.listening() as address, fleet_of(spec_of(address)) as fleet:
        for sessions in (1, 2, 3):
            await fleet.wait_ready(1)
            assert replica.sessions == sessions
            with pytest.raises(ReplicaUnavailable):
                await fleet.open("pool/0", submit_of()).receive()
            await until(lambda: not fleet.ready)


async def test_a_draining_replica_takes_nothing_new_and_finishes_the_old() -> None:
    engine, gate = gated_engine()
    async with serving(engine) as (server, address), fleet_of(spec_of(address)) as fleet:
        stream = fleet.open("pool/0", submit_of(6))
        gate.let(2)
        await until(lambda: fleet.candidates()[0].load.running)
        draining = asyncio.create_task(server.drain(10))
        await until(lambda: not fleet.ready)
        assert fleet.candidates() == []
        assert fleet.problems() == {"pool/0": "the replica drains by itself"}
        gate.open()
        tokens, _ = await drained(stream)
        assert len(tokens[0]) == 6
        await draining


async def test_what_was_sent_counts_until_the_engine_reports() -> None:
    engine, gate = gated_engine()
    async with serving(engine) as (_, address), fleet_of(spec_of(address)) as fleet:
        streams = [fleet.open("pool/0", submit_of(5)) for _ in range(3)]
        assert fleet.candidates()[0].sent == 3
        gate.open()
        await asyncio.gather(*(drained(stream) for stream in streams))
        await until(lambda: fleet.candidates()[0].sent == 0)


async def test_a_report_from_before_a_submit_does_not_hide_it() -> None:
    replica = RawReplica()
    async with replica.listening() as address, fleet_of(spec_of(address)) as fleet:
        loads = 0

        def count() -> None:
            nonlocal loads
            loads += 1

        fleet.on_load = count
        for number in range(3):
            fleet.open("pool/0", submit_of(5, prompt=range(10 + number), n=2))
        fleet.open("pool/0", submit_of(5, prompt=range(100)), kv_tokens=250)
        # Each report counts what the replica had received by then, in sequences.
        for seq, (seen, left) in enumerate(
            [(0, (7, 133, 313)), (2, (5, 123, 293)), (6, (1, 100, 250)), (7, (0, 0, 0))]
        ):
            await replica.send(codec.Step(seq + 1, load=Load(running=seen), submits_seen=seen))
            await until(lambda seq=seq: loads == seq + 1)  # type: ignore[misc]
            view = fleet.candidates()[0]
            assert view.load.running == seen
            assert (view.sent, view.sent_prompt_tokens, view.sent_kv_tokens) == left
        await replica.send(codec.Step(9, stream_ids=[1], tokens=[5]))
        fleet.open("pool/0", submit_of(5))
        assert fleet.candidates()[0].sent == 1


def session_connection(fleet: Fleet, id_: str) -> SessionConnection:
    connection = fleet._connections[id_]
    assert isinstance(connection, SessionConnection)
    return connection


async def test_every_session_counts_its_own_and_a_lost_one_counts_no_longer() -> None:
    replica = RawReplica()
    spec = spec_of("", channels=2, streams_per_channel=2)
    async with replica.listening() as address, fleet_of(replace(spec, address=address)) as fleet:
        fleet.open(spec.id, submit_of(n=2))
        fleet.open(spec.id, submit_of(n=1))
        await until(lambda: replica.sessions == 2)
        connection = session_connection(fleet, spec.id)
        await until(lambda: len(connection._sessions) == 2)
        fleet.open(spec.id, submit_of(n=2))
        assert fleet.candidates()[0].sent == 5
        # The last session knows of two sequences, the first one's three stay as they are.
        await replica.send(codec.Step(1, load=Load(running=2), submits_seen=2))
        await until(lambda: fleet.candidates()[0].sent == 3)
        await replica.send_bytes(b"\xff")
        await until(lambda: len(connection._sessions) == 1)
        assert fleet.candidates()[0].sent == 3
        await replica.send_bytes_to(0, b"\xff")
        await until(lambda: not connection._sessions)
        assert connection.view.sent == 0


@given(
    moves=st.lists(
        st.one_of(
            st.tuples(st.just("open"), st.integers(1, 3)),
            st.tuples(st.just("report"), st.integers(0, 5)),
            st.tuples(st.sampled_from(["lose", "restart", "connect"]), st.just(0)),
        ),
        max_size=30,
    )
)
def test_no_order_of_events_leaves_something_counted(moves: list[tuple[str, int]]) -> None:
    connection = SessionConnection(spec_of("127.0.0.1:1"), TransportContext("test"))
    sessions: list[tuple[Unreported, list[int]]] = []
    for kind, number in moves:
        if kind == "connect" or not sessions:
            sessions.append((Unreported(), [0, 0]))
        unreported, (opened, reported) = sessions[-1]
        if kind == "open":
            unreported.add(opened, number, number, number)
            sessions[-1][1][0] += number
        elif kind == "report":
            sessions[-1][1][1] = min(opened, reported + number)
            unreported.reported(sessions[-1][1][1])
        elif kind in ("lose", "restart"):
            del sessions[-1 if kind == "lose" else 0 :]
        connection._sessions = [SimpleNamespace(unreported=unreported) for unreported, _ in sessions]  # type: ignore[misc]
        connection._refresh_view(Load())
        view = connection.view
        assert view.sent == sum(unreported.sums[0] for unreported, _ in sessions) >= 0
        assert view.sent == view.sent_prompt_tokens == view.sent_kv_tokens
    connection._sessions = []
    connection._refresh_view(Load())
    assert connection.view.sent == 0


@pytest.mark.parametrize(("said", "known"), [(4096, 4096), (0, ASSUMED_NUM_TOKENS)])
async def test_a_view_has_the_sizes_that_the_replica_said(said: int, known: int) -> None:
    info = structs.replace(info_of(), max_num_tokens=said, reserves_output=True)
    async with serving(SilentEngine(info)) as (_, address), fleet_of(spec_of(address)) as fleet:
        view = fleet.candidates()[0]
        assert (view.max_batch_size, view.kv_block_tokens, view.max_num_tokens) == (8, 32, known)
        # Such an engine sets aside all that a request may ask for, whatever is expected of it.
        fleet.open("pool/0", submit_of(50, n=2), kv_tokens=7)
        assert fleet.candidates()[0].sent_kv_tokens == 3 + 2 * 50
        assert fleet.takes("pool/0")
        assert not fleet.takes("pool/1")


async def test_a_full_session_gets_a_second_channel_and_no_more_than_configured() -> None:
    engine = SilentEngine()
    async with serving(engine) as (server, address):
        spec = spec_of(address, channels=2, streams_per_channel=4)
        async with fleet_of(spec) as fleet:
            streams = [fleet.open(spec.id, submit_of(name=f"a{i}")) for i in range(5)]
            await until(lambda: len(server._sessions) == 2)
            connection = session_connection(fleet, spec.id)
            await until(lambda: len(connection._sessions) == 2)
            streams += [fleet.open(spec.id, submit_of(name=f"b{i}")) for i in range(20)]
            await until(lambda: len(engine.submitted) == 25)
            assert sorted(session.streams for session in connection._sessions) == [12, 13]
            assert len(server._sessions) == 2
            for stream in streams:
                stream.close()
            await until(lambda: len(engine.cancelled) == 25)


async def test_a_new_channel_does_not_hide_the_load_of_the_replica() -> None:
    engine, gate = gated_engine()
    async with serving(engine) as (_, address):
        spec = spec_of(address, channels=2, streams_per_channel=1)
        async with fleet_of(spec) as fleet:
            streams = [fleet.open(spec.id, submit_of(500))]
            gate.let(2)
            await until(lambda: fleet.candidates()[0].load.running == 1)
            connection = session_connection(fleet, spec.id)
            # From now on no step reports anything: what is known must stay known.
            seen = []
            admit = connection._admit

            def admitting(welcome: "object") -> None:
                admit(welcome)  # type: ignore[arg-type]
                seen.append(connection.view.load.running)

            connection._admit = admitting  # type: ignore[method-assign]
            streams.append(fleet.open(spec.id, submit_of(500)))
            await until(lambda: seen)
            assert seen == [1]
            for stream in streams:
                stream.close()
