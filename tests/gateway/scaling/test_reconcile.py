"""Whatever happens to replicas: none is started twice, none is lost, and the pool ends at what is wanted."""

from collections.abc import Mapping

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gateway.scaling.facts.pool_facts import Announced, PoolFacts, Use
from gateway.scaling.intents import Intent
from gateway.scaling.reconcile import (
    STOP_SECONDS,
    UNPLACED_FIRST,
    UNPLACED_LONGEST,
    PoolReconciler,
    Wanted,
    new_intent,
)
from gateway.scaling.settings import scaled_models
from protos.launch_step import LaunchStep
from replicas.launchers.launcher import LaunchedReplica
from tests.gateway.scaling.scaled import scaled_config

POOL = scaled_models(scaled_config(spot_max=8, spot_price_per_hour=1.0))[0].pools[0]


class Fleet:
    """A launcher and replicas without I/O: a start takes two rounds, a stop one."""

    def __init__(self) -> None:
        self.now = 1e6
        self.replicas: dict[str, LaunchedReplica] = {}
        self.ready: set[str] = set()
        self.intents: dict[str, Intent] = {}
        self.started: list[str] = []
        self.lost: list[Intent] = []
        self._ids = 0
        self.reconciler = self.controller()

    def controller(self) -> PoolReconciler:
        return PoolReconciler(POOL, self._id)

    def _id(self) -> str:
        self._ids += 1
        return f"p-{self._ids}"

    def facts(self, *, forgets: bool = False) -> PoolFacts:
        announced = {id_: Announced(f"unix:/{id_}", LaunchStep.READY) for id_ in self.ready}
        uses = {f"unix:/{id_}": Use(0, 0, 0, 0.0, drained=True) for id_ in self.ready}
        observed: Mapping[str, LaunchedReplica] = {} if forgets else self.replicas
        return PoolFacts(now=self.now, observed=dict(observed), announced=announced, uses=uses)

    def round(self, wanted: Wanted, *, forgets: bool = False, written: bool = True, called: bool = True) -> None:
        """One round; `forgets`: the launcher shows nothing; not `written`: the store is lost; not `called`: killed."""
        self.now += 1.0
        before = set(self.replicas)
        plan = self.reconciler.plan(list(self.intents.values()), self.facts(forgets=forgets), wanted)
        if not written:
            return
        self.intents |= plan.puts
        for id_ in plan.drops:
            self.intents.pop(id_, None)
        if called:
            for intent in plan.starts:
                assert intent.id in self.intents, "it is written down before it is started"
                self._start(intent)
            for id_ in plan.stops:
                self._end(id_)
        self.ready |= before & set(self.replicas)

    def _start(self, intent: Intent) -> None:
        if intent.id not in self.started:
            self.started.append(intent.id)
            self.replicas[intent.id] = LaunchedReplica(
                id=intent.id, model="m", pool="p", step=LaunchStep.PROCESS, since=self.now, spot=intent.spot
            )

    def _end(self, id_: str) -> None:
        self.replicas.pop(id_, None)
        self.ready.discard(id_)

    def fail(self, number: int) -> None:
        """Have one replica end by itself; its launcher shows it as failed."""
        if self.replicas:
            id_ = sorted(self.replicas)[number % len(self.replicas)]
            self.replicas[id_] = msgspec.structs.replace(self.replicas[id_], step=LaunchStep.FAILED)
            self.ready.discard(id_)


EVENTS = st.one_of(
    st.tuples(st.just("want"), st.integers(0, 8)),
    st.tuples(st.just("rounds"), st.integers(1, 6)),
    st.tuples(st.just("fail"), st.integers(0, 7)),
    st.tuples(st.just("forget"), st.integers(1, 3)),
    st.tuples(st.just("unwritten"), st.integers(1, 3)),
    st.tuples(st.just("killed"), st.integers(1, 2)),
    st.tuples(st.just("flushed"), st.just(0)),
    st.tuples(st.just("clock"), st.integers(1, 5000)),
)


@given(st.lists(EVENTS, max_size=30), st.integers(0, 8))
def test_whatever_happens_the_pool_ends_at_what_is_wanted(events: list[tuple[str, int]], spot: int) -> None:
    fleet = Fleet()
    count = 1
    for what, number in events:
        if what == "want":
            count = number
        elif what == "fail":
            fleet.fail(number)
        elif what == "flushed":
            fleet.intents = {}
        elif what == "clock":
            # A controller's own clock never goes back; another one may be behind.
            fleet.now -= number
            fleet.reconciler = fleet.controller()
        wanted = Wanted(count, min(spot, count))
        if what == "killed":
            # In the middle of a round, after it has written and before it has called.
            fleet.round(wanted, called=False)
            fleet.reconciler = fleet.controller()
        times = number if what in ("rounds", "forget", "unwritten") else 1
        for _ in range(times):
            fleet.round(wanted, forgets=what == "forget", written=what != "unwritten")
    wanted = Wanted(count, min(spot, count))
    for _ in range(200):
        fleet.round(wanted)
    running = [intent for intent in fleet.intents.values() if intent.state == "run"]
    assert len(running) == count
    assert sum(intent.spot for intent in running) == min(spot, count)
    assert (set(fleet.intents), fleet.ready) == (set(fleet.replicas), set(fleet.replicas))


@given(st.lists(st.integers(0, 8), min_size=1, max_size=20))
def test_never_more_run_than_are_wanted_and_are_about_to_go(wants: list[int]) -> None:
    fleet = Fleet()
    for count in wants:
        for _ in range(3):
            fleet.round(Wanted(count))
            running = [intent for intent in fleet.intents.values() if intent.state == "run"]
            assert len(running) == count


def test_a_start_that_nobody_sees_is_asked_for_again_by_the_same_id() -> None:
    fleet = Fleet()
    fleet.round(Wanted(1), called=False)
    (id_,) = fleet.intents
    for _ in range(10):
        fleet.round(Wanted(1))
    assert fleet.started == [id_]


def test_a_start_that_hangs_is_ended_and_another_one_begun() -> None:
    fleet = Fleet()
    fleet.round(Wanted(1))
    (hung,) = fleet.replicas
    fleet.ready.clear()
    fleet.now += POOL.start_timeout - 5.0
    plan = fleet.reconciler.plan(list(fleet.intents.values()), fleet.facts(), Wanted(1))
    assert (plan.stops, plan.starts) == ({}, [])
    fleet.now += 10.0
    plan = fleet.reconciler.plan(list(fleet.intents.values()), fleet.facts(), Wanted(1))
    assert list(plan.stops) == [hung]
    assert plan.puts[hung].state == "stop"
    (failure,) = fleet.reconciler.failures
    assert "not ready 1800 s" in failure.problem
    fleet.intents |= plan.puts
    fleet.replicas.clear()
    fleet.now += 10.0
    plan = fleet.reconciler.plan(list(fleet.intents.values()), fleet.facts(), Wanted(1))
    assert len(plan.starts) == 1
    assert plan.drops == {hung}


def test_a_replica_that_does_not_end_is_told_again() -> None:
    fleet = Fleet()
    fleet.round(Wanted(1))
    fleet.round(Wanted(1))
    (id_,) = fleet.replicas
    told = 0
    for _ in range(60):
        fleet.now += 1.0
        plan = fleet.reconciler.plan(list(fleet.intents.values()), fleet.facts(), Wanted(0))
        fleet.intents |= plan.puts
        told += id_ in plan.stops
    assert 2 <= told <= 60 / STOP_SECONDS


def test_a_pool_that_is_left_alone_ends_what_was_begun_and_begins_nothing() -> None:
    fleet = Fleet()
    for _ in range(3):
        fleet.round(Wanted(2))
    fleet.round(Wanted(1))
    fleet.now += 5.0
    plan = fleet.reconciler.plan(list(fleet.intents.values()), fleet.facts(), None)
    assert len(plan.stops) == 1
    assert plan.starts == []


def test_a_replica_that_no_worker_speaks_of_is_drained_only_where_workers_speak() -> None:
    replica = LaunchedReplica(id="p-1", model="m", pool="p", step=LaunchStep.READY, since=0.0, address="unix:/p-1")
    intent = msgspec.structs.replace(
        new_intent(POOL, "p-1", 0.0), state="drain", since=100.0, grace=30.0, seen=True, address="unix:/p-1"
    )
    announced = {"p-1": Announced("unix:/p-1", LaunchStep.READY)}

    def stops(now: float, uses: Mapping[str, Use]) -> bool:
        facts = PoolFacts(now=now, observed={"p-1": replica}, announced=announced, uses=uses)
        return bool(PoolReconciler(POOL, lambda: "p-2").plan([intent], facts, Wanted(0)).stops)

    other = {"unix:/other": Use(0, 0, 0, 0.0, drained=False)}
    assert stops(102.0, other)
    assert not stops(102.0, {}), "the store has lost what the workers said of its streams"
    assert stops(134.0, {})


def test_of_replicas_with_places_the_last_goes() -> None:
    fleet = Fleet()
    for _ in range(4):
        fleet.round(Wanted(3))
    places = dict(zip(sorted(fleet.replicas), (1, 2, 0), strict=True))
    for id_, place in places.items():
        fleet.replicas[id_] = msgspec.structs.replace(fleet.replicas[id_], place=place)
    for _ in range(10):
        fleet.round(Wanted(2))
    assert sorted(places[id_] for id_ in fleet.replicas) == [0, 1]
    for _ in range(10):
        fleet.round(Wanted(1))
    assert [places[id_] for id_ in fleet.replicas] == [0]


def test_where_nowhere_is_room_the_pool_does_not_grow_for_longer_each_time() -> None:
    fleet = Fleet()
    pauses = []
    for _ in range(6):
        while not fleet.replicas:
            fleet.round(Wanted(1))
        failed_at = fleet.now + 1.0
        [id_] = fleet.replicas
        unplaced = msgspec.structs.replace(
            fleet.replicas[id_], step=LaunchStep.FAILED, problem="0/3 nodes are available", is_unplaced=True
        )
        fleet.replicas[id_] = unplaced
        fleet.round(Wanted(1))
        assert fleet.reconciler.unavailable(fleet.now) == "0/3 nodes are available"
        while fleet.reconciler.unavailable(fleet.now):
            fleet.round(Wanted(1))
        pauses.append(fleet.now - failed_at)
    assert pauses[0] == UNPLACED_FIRST
    assert pauses == sorted(pauses)
    assert pauses[-1] == UNPLACED_LONGEST
    # One that comes up ends that.
    for _ in range(5):
        fleet.round(Wanted(1))
    [id_] = fleet.replicas
    fleet.replicas[id_] = msgspec.structs.replace(
        fleet.replicas[id_], step=LaunchStep.FAILED, problem="no node", is_unplaced=True
    )
    fleet.round(Wanted(1))
    assert fleet.reconciler.unavailable(fleet.now + UNPLACED_FIRST - 1.0) == "no node"
    assert fleet.reconciler.unavailable(fleet.now + UNPLACED_FIRST) == ""


def test_while_nothing_is_replaced_nothing_is_said_about_replacing() -> None:
    fleet = Fleet()
    fleet.reconciler.unwell.warning = "many are unwell"
    fleet.reconciler.plan([], fleet.facts(), None)
    assert fleet.reconciler.unwell.warning == ""
