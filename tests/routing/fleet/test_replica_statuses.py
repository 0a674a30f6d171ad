import asyncio
from collections.abc import Callable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from protos.types import Load, ReplicaInfo, Role, Shape, Submit
from routing.fleet.replica_statuses import ReplicaStatuses, Standing
from routing.health.replica_status import State
from routing.prefix.prefix_directory import Accuracy
from routing.transports.counted_transport import CheckResult, CountedConnection, Unreachable
from routing.transports.mailbox import Mailbox
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
        self.standing = Standing()
        self.accuracy: dict[str, Accuracy] = {}
        self.legs: list[Mailbox] = []
        self.kept = ReplicaStatuses()

    @property
    def first(self) -> Connection:
        return self.connections[0]

    def reached(self, running: int | None = None) -> None:
        load = None if running is None else Load(running=running, workers=1)
        self.first._check_passed(CheckResult(INFO, load), [])
        self.refresh()

    def refresh(self) -> None:
        self.standing = replace(self.standing, ready=frozenset(c.spec.id for c in self.connections if c.ready))

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
        self.standing = replace(self.standing, drained={"p/0"} ^ set(self.standing.drained))

    def leave(self) -> None:
        self.standing = replace(self.standing, leaving={"p/1"} ^ set(self.standing.leaving))

    def probe(self) -> None:
        self.first.health.probe_ended(self.now, "")
        self.refresh()

    def learn(self) -> None:
        self.accuracy["p/0"] = Accuracy(True, 1, 2.0, self.now, 1.0)

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


def asked(statuses: ReplicaStatuses, of: Replicas) -> object:
    return statuses.of(of.connections, of.standing, of.now, of.accuracy)


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
    first = replicas.kept.of(replicas.connections, replicas.standing, replicas.now, {})
    replicas.wait()
    (after, _) = replicas.kept.of(replicas.connections, replicas.standing, replicas.now, {})
    assert after.state is State.EJECTED
    assert after.breaker_seconds == first[0].breaker_seconds - 1.0
