import asyncio
from collections.abc import Callable
from dataclasses import replace
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.errors import ReplicaFailed, ReplicaUnavailable
from protos.types import Load, ReplicaInfo, Role, Shape, Submit
from routing.fleet.fleet import CALM_TICKS, Fleet
from routing.fleet.replica_statuses import ReplicaStatuses, Roster
from routing.health.replica_status import ReplicaStatus, State
from routing.prefix.prefix_directory import Accuracy, PrefixDirectory
from routing.transports.counted_transport import CheckResult, CountedConnection, Unreachable
from routing.transports.mailbox import Mailbox
from routing.transports.openai.openai_connection import OpenAIConnection
from routing.transports.openai.scrape import Scrape
from routing.transports.replica_connection import TransportContext
from tests.harness import spec_of, submit_of

INFO = ReplicaInfo("mixtral-8x7b", "simulated", "e", Shape(tp=2), Role.BOTH, 0, 0, 0, 0)


class Connection(CountedConnection):
    """A connection that nothing is sent on."""

    def _begin(self) -> None: ...

    def _send(self, submit: Submit, mailbox: Mailbox) -> Callable[[], None]:
        return lambda: None


class Replicas:
    """Two replicas of a fleet, to which anything may happen."""

    def __init__(self) -> None:
        self.now = 100.0
        context = TransportContext("w", clock=lambda: self.now)
        self.connections = [Connection(spec_of("grpc://127.0.0.1:1", id=f"p/{n}"), context) for n in (0, 1)]
        self.roster = Roster()
        self.found: dict[str, Accuracy] = {}
        self.legs: list[Mailbox] = []
        self.kept = ReplicaStatuses()

    @property
    def first(self) -> Connection:
        return self.connections[0]

    def accuracy(self) -> dict[str, Accuracy]:
        return self.found

    def reached(self, running: int | None = None) -> None:
        load = None if running is None else Load(running=running, workers=1)
        self.first._check_passed(CheckResult(INFO, load), [])
        self.refresh()

    def refresh(self) -> None:
        self.roster = replace(self.roster, ready=frozenset(c.spec.id for c in self.connections if c.ready))

    def send(self) -> None:
        if self.first.connected:
            self.legs.append(self.first.open(submit_of()))  # type: ignore[arg-type]

    def end(self) -> None:
        if self.legs:
            self.first._detach(self.legs.pop(), cancel=False)

    def lose(self) -> None:
        self.first._check_failed(Unreachable("it is away"))
        self.refresh()

    def drain(self) -> None:
        self.roster = replace(self.roster, drained={"p/0"} ^ set(self.roster.drained))

    def leave(self) -> None:
        self.roster = replace(self.roster, leaving={"p/1"} ^ set(self.roster.leaving))

    def probe(self) -> None:
        self.first.health.probe_ended(self.now, "")
        self.refresh()

    def learn(self) -> None:
        self.found["p/0"] = Accuracy(True, 1, 2.0, self.now, 1.0)

    def wait(self) -> None:
        self.now += 1.0


ACTIONS: list[Callable[[Replicas], object]] = [
    Replicas.reached,
    lambda replicas: replicas.reached(3),
    Replicas.send,
    Replicas.end,
    Replicas.lose,
    Replicas.drain,
    Replicas.leave,
    Replicas.probe,
    Replicas.learn,
    Replicas.wait,
    lambda replicas: replicas.first.health.breaker.failed(replicas.now),
    lambda replicas: replicas.first.health.eject(replicas.now, "slow"),
    lambda replicas: replicas.first.health.tick(replicas.now, busy=False),
    lambda replicas: replicas.connections.reverse(),
]


def asked(statuses: ReplicaStatuses, of: Replicas) -> list[ReplicaStatus]:
    statuses.renew(of.connections, of.roster, of.now, of, 1000)
    return statuses.last


@given(st.lists(st.sampled_from(ACTIONS), max_size=30))
def test_what_is_kept_is_what_would_be_made_anew(actions: list[Callable[[Replicas], object]]) -> None:
    async def check() -> None:
        replicas = Replicas()
        for action in actions:
            action(replicas)
            assert asked(replicas.kept, replicas) == asked(ReplicaStatuses(), replicas)
        for connection in replicas.connections:
            await connection.aclose()

    asyncio.run(check())


def test_while_nothing_changes_it_is_the_same_object() -> None:
    replicas = Replicas()
    replicas.reached(3)
    first = asked(replicas.kept, replicas)
    replicas.wait()
    # A load that says the same.
    replicas.first._check_passed(CheckResult(INFO, Load(running=3, workers=1)), [])
    assert asked(replicas.kept, replicas) is first


def test_what_depends_on_the_time_is_made_anew() -> None:
    replicas = Replicas()
    replicas.reached()
    replicas.first.health.eject(replicas.now, "slow")
    before = asked(replicas.kept, replicas)[0].breaker_seconds
    replicas.wait()
    (after, _) = asked(replicas.kept, replicas)
    assert after.state is State.EJECTED
    assert after.breaker_seconds == before - 1.0
    assert not replicas.kept.hold


class Upstreams:
    """A fleet of two replicas at one provider, to which anything may happen."""

    def __init__(self) -> None:
        self.now = 100.0
        specs = [spec_of("http://127.0.0.1:1", id=f"p/{n}", engine="openai") for n in (0, 1)]
        self.fleet = Fleet(specs, "w", PrefixDirectory(), clock=lambda: self.now)

    @property
    def first(self) -> OpenAIConnection:
        connection = self.fleet._connections["p/0"]
        assert isinstance(connection, OpenAIConnection)
        return connection

    def wait(self) -> None:
        self.now += 1.0


UNREACHABLE = Unreachable("it is away")
HAPPENINGS: list[Callable[[Upstreams], object]] = [
    Upstreams.wait,
    lambda of: of.first.looked(None),
    lambda of: of.first.looked(Scrape(Load(running=3, workers=1), 16)),
    lambda of: of.first.look_failed(UNREACHABLE),
    lambda of: of.first.leave_alone(3.0, "it asks for it"),
    lambda of: of.first.key_is_refused("no key"),
    lambda of: of.first._end(Mock(), ReplicaUnavailable("away"), "away"),
    lambda of: of.fleet.failed("p/0", ReplicaFailed("no"), begun=True),
    lambda of: of.fleet.succeeded("p/0"),
    lambda of: of.fleet.drain({"p/0": of.now + 5.0}),
    lambda of: of.fleet.drain({}),
    lambda of: of.fleet.tick(),
    lambda of: of.fleet.set_replicas([of.first.spec]),
]


@given(st.lists(st.sampled_from(HAPPENINGS), max_size=40))
def test_a_fleet_does_not_keep_a_status_that_has_changed(happenings: list[Callable[[Upstreams], object]]) -> None:
    async def check() -> None:
        upstreams = Upstreams()
        fleet, anew = upstreams.fleet, ReplicaStatuses()
        for happens in happenings:
            happens(upstreams)
            anew = ReplicaStatuses()
            anew.renew(fleet._connections.values(), fleet._roster, upstreams.now, None, 0)
            assert fleet.statuses() == anew.last
        await fleet.aclose()

    asyncio.run(check())


async def test_nothing_is_done_for_a_fleet_that_nothing_happens_to(monkeypatch: pytest.MonkeyPatch) -> None:
    upstreams = Upstreams()
    fleet = upstreams.fleet
    for connection in fleet._connections.values():
        connection.looked(None)  # type: ignore[attr-defined]
    renewed, ticked = [], []
    monkeypatch.setattr(ReplicaStatuses, "renew", lambda *_: renewed.append(1))
    monkeypatch.setattr(OpenAIConnection, "tick", lambda *_, probes, ticks: ticked.append(ticks))
    statuses = fleet.statuses()
    fleet._is_still = True
    fleet.tick()
    ticked.clear()
    for _ in range(400):
        fleet.tick()
        assert fleet.statuses() is statuses
    assert len(renewed) == 1
    assert len(ticked) == 2 * 400 / CALM_TICKS
    assert sum(ticked) == 2 * 400
    upstreams.first.look_failed(UNREACHABLE)
    for _ in range(4):
        fleet.tick()
    assert ticked[-2 * 3 :] == [1] * 6
    fleet.statuses()
    assert len(renewed) == 2
    await fleet.aclose()
