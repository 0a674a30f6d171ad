import asyncio
import contextlib
import logging
import math
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

import routing.transports.session_transport
from protos.errors import ReplicaDraining, ReplicaUnavailable
from protos.types import Work
from routing.contracts.policy import Left
from routing.dispatch.dispatch_context import DispatchContext
from routing.fleet.fleet import Fleet
from routing.fleet.wanted_replicas import LEAVE_SECONDS, WantedReplicas
from routing.health.replica_status import State
from routing.policies.least_load import LeastLoad
from routing.policies.zone_affinity import Zones
from routing.prefix.prefix_directory import PrefixDirectory
from routing.transports.replica_spec import ReplicaSpec
from tests.harness import drained, engine_of, gated_engine, serving, spec_of, submit_of
from tests.loops import until


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing.transports.session_transport, "FIRST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(routing.transports.session_transport, "LAST_RETRY_SECONDS", 0.02)


class World:
    def __init__(self, *specs: ReplicaSpec) -> None:
        self.now = 100.0
        self.left: list[str] = []
        self.prefixes = PrefixDirectory()
        self.fleet = Fleet(specs, "test", self.prefixes, clock=lambda: self.now)
        self.fleet.on_left = self.left.append

    @property
    def ready(self) -> list[str]:
        return [view.id for view in self.fleet.candidates()]


@contextlib.asynccontextmanager
async def world_of(*specs: ReplicaSpec) -> AsyncIterator[World]:
    world = World(*specs)
    world.fleet.start()
    try:
        yield world
    finally:
        await world.fleet.aclose()


def test_a_replica_that_another_zone_is_meant_for_now_stays() -> None:
    here, there = replace(spec_of("unix:/a"), id="p/a", near=True), replace(spec_of("unix:/b"), id="p/b", near=False)
    members = WantedReplicas([here, there])
    assert members.zones == Zones(frozenset({"p/a"}), frozenset({"p/b"}))
    members.want([replace(here, near=False), replace(there, near=None)], {"p/a": here, "p/b": there}, 1.0)
    assert members.zones == Zones(frozenset(), frozenset({"p/a"}))
    assert not members.leaving


@pytest.mark.parametrize("planned", [True, False])
async def test_the_end_of_a_drained_replica_is_no_warning(planned: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with world_of() as world:
        async with serving(engine_of()) as (_, one):
            world.fleet.set_replicas([spec_of(one, id="p/1")])
            await until(lambda: world.ready == ["p/1"])
            world.fleet.drain({"p/1": math.inf} if planned else {})
            (connection,) = world.fleet._connections.values()
            for session in connection._sessions:  # type: ignore[attr-defined]
                session._call.cancel()
            await until(lambda: "lost" in caplog.text)
        world.fleet.drain({})
        await until(lambda: world.fleet.statuses()[0].state is State.CONNECTING)
        levels = {record.levelno for record in caplog.records if "p/1" in record.message}
        assert (logging.WARNING in levels) is not planned


async def test_replicas_come_and_go() -> None:
    async with serving(engine_of()) as (_, one), serving(engine_of()) as (_, two), world_of() as world:
        first, second = spec_of(one, id="p/1"), spec_of(two, id="p/2")
        fleet = world.fleet
        fleet.set_replicas([first])
        assert len(fleet) == 1
        await until(lambda: world.ready == ["p/1"])
        fleet.set_replicas([first, second])
        await until(lambda: world.ready == ["p/1", "p/2"])
        assert fleet.answers("p/2")
        fleet.set_replicas([second])
        assert world.ready == ["p/2"]
        assert len(fleet) == 1
        await until(lambda: world.left == ["p/1"])
        assert [status.id for status in fleet.statuses()] == ["p/2"]
        assert not fleet.answers("p/1")
        assert fleet.fingerprint("p/1") == fleet.version("p/1") == ""
        with pytest.raises(ReplicaUnavailable):
            fleet.open("p/1", submit_of())
        # What is told of one that is gone is nobody's.
        fleet.succeeded("p/1")
        fleet.failed("p/1", ReplicaUnavailable("x"))
        fleet._failing("p/1", "x")
        fleet._worked("p/1", Work(us=1))
        # Nothing of it is left.
        for known in (fleet._connections, fleet._paces, fleet._slow.since, world.prefixes._replicas):
            assert "p/1" not in known
        fleet.set_replicas([first, second])
        await until(lambda: world.ready == ["p/2", "p/1"])
        assert (await drained(fleet.open("p/1", submit_of(5))))[0][0]


async def test_what_runs_at_one_that_leaves_has_time_and_then_moves_on() -> None:
    engine, gate = gated_engine()
    async with serving(engine) as (_, address), world_of(spec_of(address)) as world:
        fleet = world.fleet
        await fleet.wait_ready(1)
        ending, staying = fleet.open("pool/0", submit_of(3)), fleet.open("pool/0", submit_of(500))
        gate.let(2)
        await until(lambda: fleet.candidates()[0].load.running == 2)
        fleet.set_replicas([])
        assert world.ready == []
        (status,) = fleet.statuses()
        assert (status.state, status.reason) == (
            State.DRAINING,
            "it is no longer among the replicas of its pool",
        )
        gate.let(10)
        assert len((await drained(ending))[0][0]) == 3
        world.now += LEAVE_SECONDS - 0.1
        fleet.tick()
        assert world.left == []
        world.now += 0.2
        fleet.tick()
        with pytest.raises(ReplicaDraining):
            await drained(staying)
        await until(lambda: world.left == ["pool/0"])
        assert fleet.statuses() == []


async def test_one_that_is_back_in_time_has_never_left() -> None:
    engine, gate = gated_engine()
    async with serving(engine) as (server, address), world_of(spec_of(address)) as world:
        fleet = world.fleet
        await fleet.wait_ready(1)
        stream = fleet.open("pool/0", submit_of(4))
        fleet.set_replicas([])
        fleet.set_replicas([spec_of(address)])
        assert world.ready == ["pool/0"]
        world.now += 2 * LEAVE_SECONDS
        fleet.tick()
        gate.open()
        assert len((await drained(stream))[0][0]) == 4
        assert (world.left, len(server._sessions)) == ([], 1)


async def test_one_that_has_become_another_is_connected_anew() -> None:
    engine, _ = gated_engine()
    async with serving(engine) as (_, address), world_of(spec_of(address)) as world:
        fleet, other = world.fleet, spec_of(address, model="llama")
        await fleet.wait_ready(1)
        stream = fleet.open("pool/0", submit_of(4))
        fleet.set_replicas([other])
        with pytest.raises(ReplicaDraining):
            await drained(stream)
        await until(lambda: "configured llama" in fleet.problems().get("pool/0", ""))
        assert world.left == ["pool/0"]
        fleet.set_replicas([spec_of(address)])
        await until(lambda: world.ready == ["pool/0"])


async def test_one_that_cannot_be_reached_goes_at_once() -> None:
    async with world_of(spec_of("127.0.0.1:1")) as world:
        world.fleet.set_replicas([])
        world.fleet.tick()
        await until(lambda: world.left == ["pool/0"])


async def test_a_fleet_can_close_while_replicas_leave() -> None:
    async with serving(engine_of()) as (_, address), world_of(spec_of(address)) as world:
        await world.fleet.wait_ready(1)
        world.fleet.set_replicas([spec_of(address, id="pool/1")])
        world.fleet.tick()


async def test_many_come_and_go_and_nothing_is_left() -> None:
    rng = random.Random(3)
    async with serving(engine_of()) as (_, address), world_of() as world:
        for _ in range(60):
            names = rng.sample(range(8), rng.randrange(8))
            world.fleet.set_replicas([spec_of(address, id=f"p/{name}") for name in names])
            world.fleet.tick()
            await asyncio.sleep(0)
        world.fleet.set_replicas([spec_of(address, id="p/9")])
        await until(lambda: world.ready == ["p/9"])
        await until(lambda: world.fleet.tick() or len(world.fleet._connections) == 1)  # type: ignore[func-returns-value]
        await until(lambda: not world.fleet._closing)
        assert world.fleet._paces.keys() == {"p/9"}
        assert (dict(world.fleet.members.leaving), world.fleet.members._ending) == ({}, set())


async def test_versions_are_in_fingerprints() -> None:
    async with (
        serving(engine_of(version="v7")) as (_, says),
        serving(engine_of()) as (_, silent),
        world_of(
            spec_of(says, id="p/0"), spec_of(silent, id="p/1", version="v6"), spec_of("127.0.0.1:1", id="p/2")
        ) as world,
    ):
        await world.fleet.wait_ready(2)
        assert world.fleet.version("p/0") == "v7"
        assert world.fleet.fingerprint("p/0") == "simulated-mixtral-8x7b-tp2@v7"
        assert world.fleet.fingerprint("p/1") == "simulated-mixtral-8x7b-tp2@v6"
        assert world.fleet.fingerprint("p/2") == ""
        assert [status.version for status in world.fleet.statuses()] == ["v7", "v6", ""]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (spec_of("", version="v2"), "version is v1, configured v2"),
        (spec_of("", tokenizer_hash="beef"), "its tokenizer is another than the model's: hash cafe, here beef"),
    ],
)
async def test_another_version_or_tokenizer_is_refused_by_name(
    spec: ReplicaSpec, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine = engine_of(version="v1", tokenizer_hash="cafe")
    async with serving(engine) as (_, address), world_of(replace(spec, address=address)) as world:
        await until(lambda: said in world.fleet.problems()["pool/0"])
        assert world.fleet.statuses()[0].state is State.REFUSED
        assert world.fleet.statuses()[0].version == ""
        assert world.ready == []
    assert said in caplog.text


def test_wanted_replicas_wait_for_their_id() -> None:
    one, other = spec_of("a"), spec_of("b")
    members = WantedReplicas([one])
    members.want([other], {"pool/0": one}, 5.0)
    assert members.leaving == {"pool/0": 5.0}
    members.ends("pool/0")
    assert members.missing({}) == []
    members.ended("pool/0")
    assert members.missing({}) == [other]


async def test_the_desk_tells_its_policy() -> None:
    told: list[Any] = []

    class Noting(LeastLoad):
        def observe(self, report: Any) -> None:
            told.append(report)

    async with world_of(spec_of("127.0.0.1:1")) as world:
        DispatchContext(world.fleet, Noting())
        world.fleet.set_replicas([])
        await until(lambda: told == [Left("pool/0")])
