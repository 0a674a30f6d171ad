"""Which replicas of a fleet get requests: over real sessions, with a clock and ticks of the test's own."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence

import pytest

import routing.transports.session_transport
from protos import codec
from protos.errors import ContextLengthExceeded, Overloaded, ReplicaFailed, ReplicaUnavailable
from protos.types import Finish, FinishReason, KvUpdate, Load, Role, Work
from routing.fleet.fleet import Fleet
from routing.health.breaker import CONSECUTIVE_FAULTS, OPEN_SECONDS
from routing.health.ramp import RAMP_SECONDS
from routing.health.replica_health import PROBE_AGAIN_SECONDS
from routing.health.replica_pace import SLOW_SECONDS
from routing.health.replica_status import State
from routing.prefix.prefix_directory import PrefixDirectory
from routing.transports.session_transport import SessionConnection
from tests.fakes import RawReplica, SilentEngine, WedgedEngine, info_of
from tests.harness import drained, serving, spec_of, submit_of
from tests.loops import until

ENGINE_FAILED = ReplicaFailed("no")


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing.transports.session_transport, "FIRST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(routing.transports.session_transport, "LAST_RETRY_SECONDS", 0.02)


class Watched:
    """A fleet and its clock, which the test advances."""

    def __init__(self, addresses: Sequence[str], roles: Sequence[Role] = ()) -> None:
        self.now = 1000.0
        roles = roles or [Role.BOTH] * len(addresses)
        specs = [
            spec_of(address, id=f"p/{i}", role=role)
            for i, (address, role) in enumerate(zip(addresses, roles, strict=True))
        ]
        self.fleet = Fleet(specs, "test", PrefixDirectory(), clock=lambda: self.now)

    async def tick(self, times: int = 1, hung: str = "") -> None:
        """Tick; a probe is answered before the next one, but at the replica that hangs."""
        for _ in range(times):
            self.fleet.tick()
            await until(lambda: all(c._probe is None or id_ == hung for id_, c in self.fleet._connections.items()))

    def fail(self, replica_id: str, error: Exception = ENGINE_FAILED, times: int = CONSECUTIVE_FAULTS) -> None:
        for _ in range(times):
            self.fleet.failed(replica_id, error)

    def state(self, number: int = 0) -> State:
        return self.fleet.statuses()[number].state

    async def until_state(self, state: State, number: int = 0) -> None:
        await until(lambda: self.state(number) is state, lambda: str(self.fleet.statuses()))

    @property
    def taking(self) -> list[str]:
        return [view.id for view in self.fleet.candidates()]


@contextlib.asynccontextmanager
async def watched(*addresses: str, roles: Sequence[Role] = (), prove_first: bool = False) -> AsyncIterator[Watched]:
    made = Watched(addresses, roles)
    made.fleet.start(prove_first=prove_first)
    try:
        await until(lambda: all(c.connected for c in made.fleet._connections.values()))
        yield made
    finally:
        await made.fleet.aclose()


@contextlib.asynccontextmanager
async def engines(count: int, roles: Sequence[Role] = ()) -> AsyncIterator[tuple[list[WedgedEngine], list[str]]]:
    async with contextlib.AsyncExitStack() as stack:
        found = [WedgedEngine(info_of(role=role)) for role in (roles or [Role.BOTH] * count)]
        addresses = [(await stack.enter_async_context(serving(engine)))[1] for engine in found]
        yield found, addresses


async def test_an_engine_that_hangs_behind_a_server_that_speaks_loses_its_requests_and_gets_none() -> None:
    async with engines(2) as (found, addresses), watched(*addresses) as seen:
        await drained(seen.fleet.open("p/0", submit_of(3)))
        found[0].wedge()
        stream = seen.fleet.open("p/0", submit_of(3))
        await until(lambda: seen.fleet.statuses()[0].waiting == 1)
        await seen.tick(25, hung="p/0")
        with pytest.raises(ReplicaUnavailable):
            await stream.receive()
        assert seen.state() is State.WEDGED
        assert seen.taking == ["p/1"]
        assert "no steps" in seen.fleet.problems()["p/0"]
        await seen.tick(50, hung="p/0")
        assert seen.taking == ["p/1"]
        await until(lambda: seen.fleet._connections["p/0"]._probe is None)
        found[0].revive()
        seen.now += PROBE_AGAIN_SECONDS
        await seen.tick()
        await seen.until_state(State.RETURNING)
        assert sum("p/0" in seen.taking for _ in range(100)) in (9, 10)
        assert seen.fleet.takes("p/0")
        seen.now += RAMP_SECONDS
        await seen.tick()
        assert seen.taking == ["p/0", "p/1"]


async def test_an_idle_engine_that_hangs_is_found_before_a_request_is() -> None:
    async with engines(1) as (found, addresses), watched(*addresses) as seen:
        found[0].wedge()
        await seen.tick(62, hung="p/0")
        await until(lambda: found[0].submitted)
        assert [request.request_id for request in found[0].submitted.values()] == ["probe"]
        await seen.tick(25, hung="p/0")
        assert seen.state() is State.WEDGED
        assert not seen.fleet.ready
        assert seen.fleet.statuses()[0].in_flight == 0


async def test_an_idle_engine_that_answers_is_not_disturbed() -> None:
    async with engines(1) as (found, addresses), watched(*addresses) as seen:
        for probes in (1, 2, 3):
            while len(found[0].answered) < probes:
                await seen.tick()
            assert seen.state() is State.READY
        assert found[0].cancelled == []


async def test_where_replicas_must_prove_themselves_first_one_that_has_not_is_left_out() -> None:
    silent = SilentEngine()
    async with serving(silent) as (_, mute), engines(1) as (_, addresses):
        async with watched(mute, prove_first=True) as seen:
            assert seen.taking == ["p/0"], "there is no better one, and nobody waits for the probe"
        async with watched(mute, *addresses, prove_first=True) as seen:
            await until(lambda: seen.taking == ["p/1"])
            await seen.tick(25, hung="p/0")
            assert seen.state() is State.WEDGED


async def test_a_replica_that_comes_back_must_answer_a_probe_and_is_not_alone_left_out() -> None:
    async with engines(2) as (found, addresses), watched(*addresses) as seen:
        found[0].wedge()
        connection = seen.fleet._connections["p/0"]
        assert isinstance(connection, SessionConnection)
        patience = connection._sessions[0]._patience
        patience._ticks = patience._left = 1
        await seen.until_state(State.PROBING)
        assert seen.taking == ["p/1"]
        found[0].revive()
        await seen.until_state(State.RETURNING)
        assert sum("p/0" in seen.taking for _ in range(100)) in (9, 10)
        # The other one is excluded, or gone: what is left is not left out.
        assert [view.id for view in seen.fleet.candidates(exclude=["p/1"])] == ["p/0"]
        seen.fleet.drain({"p/1": float("inf")})
        assert all(seen.taking == ["p/0"] for _ in range(20))


async def test_engine_errors_eject_and_overload_and_clients_mistakes_do_not() -> None:
    async with engines(2) as (_, addresses), watched(*addresses) as seen:
        for error in (Overloaded("full"), ReplicaUnavailable("lost"), ContextLengthExceeded("long")):
            seen.fail("p/0", error, 100)
        assert seen.state() is State.READY
        seen.fail("p/0", times=CONSECUTIVE_FAULTS - 1)
        seen.fleet.succeeded("p/0")
        seen.fail("p/0", times=CONSECUTIVE_FAULTS - 1)
        assert seen.taking == ["p/0", "p/1"]
        seen.fail("p/0", times=1)
        assert seen.taking == ["p/1"]
        status = seen.fleet.statuses()[0]
        assert (status.state, status.breaker_seconds, status.share) == (State.EJECTED, OPEN_SECONDS, 0.0)
        assert "its requests fail" in status.reason
        seen.now += OPEN_SECONDS
        await seen.tick()
        await seen.until_state(State.RETURNING)


async def test_half_of_a_role_stays_whatever_happens(caplog: pytest.LogCaptureFixture) -> None:
    roles = [Role.PREFILL, Role.DECODE, Role.DECODE, Role.DECODE, Role.DECODE, Role.DECODE]

    with caplog.at_level(logging.WARNING):
        async with engines(6, roles) as (_, addresses), watched(*addresses, roles=roles) as seen:
            for number in range(6):
                seen.fail(f"p/{number}")
            assert seen.taking == ["p/0", "p/3", "p/4", "p/5"]
            assert seen.fleet.ready
    assert "stays in service" in caplog.text


async def test_an_outlier_serves_where_nobody_else_is_left() -> None:
    async with engines(2) as (_, addresses), watched(*addresses) as seen:
        seen.fail("p/0")
        assert seen.taking == ["p/1"]
        seen.fleet.drain({"p/1": float("inf")})
        assert seen.taking == ["p/0"]


async def test_what_it_takes_for_a_request_depends_on_the_roles() -> None:
    roles = [Role.PREFILL, Role.DECODE]

    async with engines(2, roles) as (_, addresses), watched(*addresses, roles=roles) as seen:
        before = (seen.fleet.ready, seen.fleet.ready_replicas)
        seen.fleet.drain({"p/1": float("inf")})
        assert (before, (seen.fleet.ready, seen.fleet.ready_replicas)) == ((True, 2), (False, 1))


NONSENSE = [
    codec.Step(1, load=Load(running=1, kv_blocks_used=1 << 30)),
    codec.Step(1, load=Load(), kv_update=KvUpdate(1, stored=range(100_000))),
    codec.Step(1, kv_update=KvUpdate(1, stored=range(100_000))),
]


@pytest.mark.parametrize("step", NONSENSE, ids=["load", "update", "update alone"])
async def test_a_replica_that_reports_nonsense_is_left_alone(
    step: codec.Step, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        replica = RawReplica()
        async with replica.listening() as address, watched(address) as seen:
            await replica.send(codec.Step(1, load=Load(running=3)))
            await until(lambda: seen.taking and seen.fleet.candidates()[0].load.running == 3)
            step.seq = 2
            await replica.send(step)
            await until(lambda: not seen.taking)
            assert seen.state() is State.EJECTED
            assert seen.fleet._connections["p/0"].view.load.running == 3, "nobody goes by it"
            for seq in range(3, 6):
                await replica.send(codec.Step(seq, load=Load(running=seq)))
            await until(lambda: seen.fleet._connections["p/0"].view.load.running == 5)
            assert seen.state() is State.EJECTED
            seen.now += OPEN_SECONDS
            await seen.tick(hung="p/0")
            await until(lambda: replica.ups)
            assert [request.request_id for _, request in replica.ups[0].submits] == ["probe"]
            await replica.send(codec.Step(6, stream_ids=[1], tokens=[9], finishes=[_end_of(1)]))
            await seen.until_state(State.RETURNING)
    lines = [record.message for record in caplog.records if "nonsense" in record.message]
    assert len(lines) == 1
    assert "p/0" in lines[0]


async def test_a_drained_replica_keeps_what_runs_until_its_grace_is_over() -> None:
    engine = SilentEngine()
    async with serving(engine) as (_, silent), engines(1) as (_, addresses), watched(silent, *addresses) as seen:
        stream = seen.fleet.open("p/0", submit_of(3))
        seen.fleet.drain({"p/0": seen.now + 30.0})
        assert seen.taking == ["p/1"]
        assert not seen.fleet.takes("p/0")
        assert seen.state() is State.DRAINING
        seen.now += 29.9
        await seen.tick()
        await until(lambda: engine.submitted)
        assert not stream.failed
        seen.now += 0.1
        await seen.tick()
        with pytest.raises(ReplicaUnavailable):
            await stream.receive()
        await until(lambda: engine.cancelled)
        engine.say(load=Load())
        await seen.until_state(State.DRAINED)
        await until(lambda: not seen.fleet._connections["p/0"].view.sent)
        await seen.tick(200)
        await asyncio.sleep(0.01)
        assert len(engine.submitted) == 1, "it is not even probed"
        seen.fleet.drain({})
        assert seen.taking == ["p/0", "p/1"]


async def test_one_that_is_much_slower_than_its_peers_is_ejected_after_a_while() -> None:
    async with engines(4) as (_, addresses), watched(*addresses) as seen:

        async def second(slow: int) -> None:
            for step in range(50):
                for number in range(4):
                    us = 100_000 if number == slow else 15_000
                    seen.fleet._worked(f"p/{number}", Work(us, sequences=30, context=9000))
                seen.now += 0.02
                if step % 25 == 0:
                    await seen.tick()

        for _ in range(int(SLOW_SECONDS) - 1):
            await second(3)
        assert seen.taking == ["p/0", "p/1", "p/2", "p/3"]
        for _ in range(4):
            await second(3)
        assert seen.taking == ["p/0", "p/1", "p/2"]
        assert "times as long as its peers'" in seen.fleet.statuses()[3].reason


async def test_steps_with_work_are_passed_on_once_each() -> None:
    replica = RawReplica()
    async with replica.listening() as address, watched(address) as seen:
        told: list[tuple[int, Work]] = []
        seen.fleet.on_work = lambda view, work: told.append((view.load.running, work))
        for seq, steps in enumerate((7, 8, 8, 9), 1):
            work = Work(1000 * steps, sequences=steps)
            await replica.send(codec.Step(seq, load=Load(running=steps, steps=steps), work=work))
        await until(lambda: len(told) == 2)
        assert told == [(8, Work(8000, sequences=8)), (9, Work(9000, sequences=9))]


def _end_of(stream_id: int) -> tuple[int, Finish]:
    return (stream_id, Finish(FinishReason.LENGTH))
