"""How many requests of batches may run: what is free, less what is kept for those who do not wait gladly."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.jobs.batches.batch_room import FIRST_LIMIT, MIN_RESERVE, Room
from gateway.scheduling.division import Divider
from protos.types import Load, Role, Shape
from routing.contracts.policy import ReplicaView


class Fleet:
    def __init__(self, *views: ReplicaView) -> None:
        self.views = views

    def candidates(self) -> Sequence[ReplicaView]:
        return self.views


class AdmissionQueue:
    def __init__(self) -> None:
        self.queue: dict[str, int] = {}
        self.keeps_at_zero = False
        self.divider = Divider(0.95)

    @property
    def waiting(self) -> int:
        return sum(self.queue.values())

    def depths(self) -> Mapping[str, int]:
        return self.queue


class World:
    """One replica with 100 slots, of which 95 are filled at all."""

    def __init__(self, slots: int = 100) -> None:
        self.now = 100.0
        self.slots = slots
        self.fleet, self.admission_queue = Fleet(), AdmissionQueue()
        self.room = Room(self.fleet, self.admission_queue, 0.95, lambda: self.now)
        self.load()

    def load(self, running: int = 0, *, waiting: int = 0, workers: int = 1, sent: int = 0) -> None:
        load = Load(running=running, waiting=waiting, workers=workers)
        self.fleet.views = (ReplicaView("a", "pool", Shape(), Role.BOTH, load, sent=sent, max_batch_size=self.slots),)

    def free(self, after: float = 1.0, unsent: int = 0) -> int:
        self.now += after
        return self.room.free(lambda: unsent)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines whose queues are never too long."""
    monkeypatch.setattr("gateway.jobs.batches.batch_room.ENGINE_QUEUE", 1000)


def test_no_more_begin_at_once_than_wait_in_an_engine_without_harm() -> None:
    world = World()
    assert world.free() == 4
    world.load(10, waiting=3)
    assert world.free() == 1
    world.load(10, waiting=1, sent=2)
    assert world.free() == 1
    world.load(10, workers=2)
    assert world.free() == 2
    assert world.free(unsent=1) == 1
    world.room.begun()
    assert world.free(after=0.0) == 0
    world.load(10, waiting=6)
    assert world.free() == 0


@pytest.mark.usefixtures("eager")
def test_what_is_free_less_a_little() -> None:
    world = World()
    assert world.free() == 93
    world.load(60, sent=10)
    assert world.free() == 23
    world.load(60, sent=10, workers=2)
    assert world.free() == int((95 - 60) / 2 - 10 - 1)
    world.load(95)
    assert world.free() == 0


@pytest.mark.usefixtures("eager")
def test_those_on_their_way_are_counted_until_a_replica_counts_them() -> None:
    world = World()
    assert world.free(unsent=20) == 73
    for _ in range(73):
        world.room.begun()
    assert world.free(after=0.0, unsent=93) == 0


def test_at_zero_one_waits_where_a_replica_is_started_for_it() -> None:
    world = World()
    world.fleet.views = ()
    assert world.free() == 0
    world.admission_queue.keeps_at_zero = True
    assert world.free() == 1
    world.room.begun()
    assert world.free() == 0
    world.room.ended(well=False)
    assert world.free() == 1, "and another one, if it was refused"
    world.load()
    assert world.free() > 1


@pytest.mark.usefixtures("eager")
def test_something_interactive_that_waits_stops_everything_and_doubles_what_is_kept() -> None:
    world = World()
    world.admission_queue.queue = {"acme": 1}
    assert world.free() == 0
    world.admission_queue.queue = {}
    kept = 95 - world.free(after=0.01)
    assert kept == pytest.approx(4, abs=1)
    world.admission_queue.queue = {"acme": 1}
    for _ in range(20):
        world.free(after=0.6)
    world.admission_queue.queue = {}
    assert 95 - world.free(after=0.01) == 50
    world.free(after=60.0)
    assert 95 - world.free() == 100 * MIN_RESERVE


@pytest.mark.usefixtures("eager")
def test_batches_own_waiting_is_no_reason_to_stop() -> None:
    world = World()
    world.admission_queue.queue = {"acme/background": 3}
    assert world.free() == 93


@pytest.mark.usefixtures("eager")
def test_room_for_as_many_as_there_lately_were() -> None:
    world = World()
    world.admission_queue.divider.seen("acme", 0, 1.0, 0.0, 0.0).admitted = 20
    world.load(20)
    assert world.free() == 73
    world.admission_queue.divider.seen("acme", 0, 1.0, 0.0, 0.0).admitted = 2
    world.load(2)
    assert world.free(after=0.01) == 75
    assert world.free(after=60.0) == 91


def test_where_replicas_do_not_say_how_many_they_run() -> None:
    world = World(slots=0)
    assert world.free() == FIRST_LIMIT
    for _ in range(8):
        world.room.begun()
    assert world.free() == 0
    for _ in range(8):
        world.room.ended(well=True)
    grown = world.free()
    assert grown > FIRST_LIMIT
    for _ in range(grown):
        world.room.begun()
    for _ in range(grown):
        world.room.ended(well=False)
    assert world.free() <= grown / 2


@given(st.lists(st.tuples(st.sampled_from(["begin", "well", "bad", "wait", "pass"]), st.floats(0, 5)), max_size=60))
def test_never_more_than_there_are_slots(steps: list[tuple[str, float]]) -> None:
    world = World()
    for what, seconds in steps:
        world.now += seconds
        world.load(world.room.running)
        free = world.free(after=0.0)
        assert 0 <= free <= 95 - world.room.running or free == 0
        if what == "begin" and free:
            world.room.begun()
        elif what in ("well", "bad") and world.room.running:
            world.room.ended(well=what == "well")
        world.admission_queue.queue = {"acme": 1} if what == "wait" else {}
