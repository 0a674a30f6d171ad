"""Replicas that serve no more although they run."""

from collections.abc import Collection
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.scaling.facts.pool_facts import Announced, PoolFacts, Use, uses
from gateway.scaling.facts.unwell import REMEMBERED_SECONDS, UNWELL_SECONDS, Reached, UnwellReplicas, unwell
from gateway.scaling.intents import Intent
from gateway.scaling.reconcile import new_intent
from gateway.scaling.scaling_registry import ScalingRegistry
from gateway.scaling.settings import scaled_models
from protos.launch_step import LaunchStep
from replicas.launchers.launcher import LaunchedReplica
from routing.health.replica_status import State
from tests.gateway.scaling.facts.test_fixed_pools import status
from tests.gateway.scaling.scaled import scaled_config, scaled_world, want

(POOL,) = scaled_models(scaled_config())[0].pools


def intent(id_: str, made: float = 0.0, **fields: object) -> Intent:
    found = msgspec.structs.replace(new_intent(POOL, id_, made), seen=True, ready=True, address=f"unix:/{id_}")
    return msgspec.structs.replace(found, **fields)


class Pool:
    """Replicas that workers find well or not, with a launcher that shows them all."""

    def __init__(self, count: int) -> None:
        self.intents = [intent(f"r{number}") for number in range(count)]
        self.now = 1000.0
        self.ill: set[str] = set()
        #: Those that neither register nor are reported on.
        self.away: set[str] = set()
        self.known = UnwellReplicas("p", 1800.0)
        self.fields: dict[str, object] = {}

    def facts(self) -> PoolFacts:
        there = [one for one in self.intents if one.id not in self.away and one.ready]
        return PoolFacts(
            now=self.now,
            observed={
                one.id: LaunchedReplica(id=one.id, model="m", pool="p", step=LaunchStep.PROCESS, since=0.0)
                for one in self.intents
            },
            announced={one.id: Announced(one.address, LaunchStep.READY) for one in there},
            uses={
                one.address: Use(0, 0, 0, 0.0, drained=False, unwell="no steps" if one.id in self.ill else "")
                for one in there
            },
            **self.fields,  # type: ignore[arg-type]
        )

    def look(self, seconds: float = 1.0) -> list[str]:
        """Let time pass; return those that are to be replaced, which end at once, and begin to start others."""
        self.now += seconds
        found = self.known.to_replace(self.intents, self.facts())
        gone = [one.id for one, _ in found]
        self.intents = [one for one in self.intents if one.id not in gone]
        self.intents += [intent(f"{id_}-new", self.now, ready=False) for id_ in gone]
        return gone

    def looks(self, seconds: int) -> list[str]:
        return [id_ for _ in range(seconds) for id_ in self.look()]

    def started(self) -> None:
        self.intents = [msgspec.structs.replace(one, ready=True) for one in self.intents]


@pytest.mark.parametrize("lost", ["ill", "away"])
def test_one_that_is_unwell_for_long_is_replaced_once(lost: str) -> None:
    pool = Pool(4)
    getattr(pool, lost).add("r1")
    assert pool.looks(int(UNWELL_SECONDS)) == []
    assert pool.looks(2) == ["r1"]
    assert pool.looks(300) == []


def test_what_is_well_in_between_begins_anew() -> None:
    pool = Pool(4)
    for _ in range(4):
        pool.ill = {"r1"}
        assert pool.looks(40) == []
        pool.ill = set()
        assert pool.looks(2) == []


def test_an_outage_of_the_store_counts_for_nothing() -> None:
    pool = Pool(4)
    pool.ill = {"r1"}
    assert pool.looks(40) == []
    assert pool.look(30.0) == []
    assert pool.looks(50) == []
    assert pool.looks(20) == ["r1"]


def test_a_clock_that_goes_back_counts_for_nothing() -> None:
    pool = Pool(4)
    pool.ill = {"r1"}
    assert pool.looks(40) == []
    assert pool.look(-500.0) == []
    assert pool.looks(40) == []


@pytest.mark.parametrize(("count", "ill", "warns"), [(2, 2, True), (4, 3, True), (8, 8, True), (4, 2, False)])
def test_where_most_are_unwell_at_once_nothing_is_done_but_told(count: int, ill: int, warns: bool) -> None:
    pool = Pool(count)
    pool.ill = {f"r{number}" for number in range(ill)}
    gone = pool.looks(80)
    assert bool(pool.known.warning) is warns
    assert len(gone) == (0 if warns else 1)
    if warns:
        assert f"{ill} of {count} replicas of pool p" in pool.known.warning
        pool.ill = set()
        pool.look()
        assert pool.known.warning == ""


def test_a_single_replica_is_replaced_unless_others_cannot_be_reached_either() -> None:
    pool = Pool(1)
    pool.ill = {"r0"}
    pool.fields = {"mostly_unwell": True}
    assert pool.looks(200) == []
    assert pool.known.warning
    pool.fields = {}
    assert pool.looks(1) == ["r0"]


def test_a_part_of_a_pool_at_a_time_and_the_next_once_the_first_are_well() -> None:
    pool = Pool(12)
    pool.ill = {f"r{number}" for number in range(5)}
    assert len(pool.looks(62)) == 3
    assert pool.looks(600) == [], "the replacements are not ready"
    pool.started()
    assert len(pool.looks(10)) == 2


def test_where_replacements_do_not_help_they_become_rarer() -> None:
    pool = Pool(1)
    times = []
    for _ in range(2000):
        pool.ill = {one.id for one in pool.intents}
        if pool.look():
            times.append(pool.now)
        pool.started()
    assert len(times) == 5
    gaps = [after - before for before, after in pairwise(times)]
    assert all(later > 1.5 * sooner for sooner, later in pairwise(gaps))


def test_nothing_follows_where_no_worker_reports() -> None:
    pool = Pool(3)
    pool.away = {"r1"}
    pool.fields = {"reported": False}
    assert pool.looks(300) == []


def test_only_one_that_runs_was_ready_and_is_left_by_all_is_unwell() -> None:
    pool = Pool(1)
    pool.ill = {"r0"}
    (one,) = pool.intents
    assert unwell(one, pool.facts())
    for fields in ({"ready": False}, {"state": "drain"}, {"state": "stop"}):
        assert not unwell(msgspec.structs.replace(one, **fields), pool.facts())
    facts = pool.facts()
    for step in (LaunchStep.STOPPING, LaunchStep.FAILED, LaunchStep.ALLOCATE, LaunchStep.LOAD):
        shown = msgspec.structs.replace(facts.observed["r0"], step=step)
        assert not unwell(one, msgspec.structs.replace(facts, observed={"r0": shown}))
    loads = Announced(one.address, LaunchStep.LOAD)
    assert not unwell(one, msgspec.structs.replace(facts, announced={"r0": loads}))
    assert not unwell(one, msgspec.structs.replace(facts, uses={})), "workers may refuse what registers"
    away = msgspec.structs.replace(facts, uses={}, announced={})
    assert unwell(one, away)
    assert not unwell(one, msgspec.structs.replace(away, registers=False)), "what finds it may leave it out"


@pytest.mark.parametrize(
    ("states", "is_unwell"),
    [
        ([State.WEDGED], True),
        ([State.EJECTED, State.CONNECTING, State.PROBING], True),
        ([State.WEDGED, State.READY], False),
        ([State.WEDGED, State.RETURNING], False),
        ([State.REFUSED], False),
        ([State.DRAINING], False),
    ],
)
def test_all_workers_must_have_left_it(states: list[State], is_unwell: bool) -> None:
    words = [msgspec.structs.replace(status("p/x", state, "p"), address="unix:/x") for state in states]
    (use,) = uses([{"m": [word]} for word in words]).values()
    assert bool(use.unwell) is is_unwell


def said(ill: int, count: int) -> dict[tuple[str, str], Use]:
    """What workers say of so many replicas, some of which are unwell."""
    return {("m", f"a{n}"): Use(0, 0, 0, 0.0, drained=False, unwell="x" if n < ill else "") for n in range(count)}


@pytest.mark.parametrize(("ill", "count", "mostly"), [(1, 1, False), (2, 2, True), (2, 3, True), (2, 4, False)])
def test_workers_that_suddenly_reach_next_to_nothing_are_not_believed(ill: int, count: int, mostly: bool) -> None:
    reached = Reached()
    assert not reached.mostly_unwell(said(0, count), 100.0)
    assert reached.mostly_unwell(said(ill, count), 101.0) is mostly


def test_what_was_never_reached_or_long_ago_is_no_sign() -> None:
    reached = Reached()
    assert not reached.mostly_unwell(said(5, 6), 100.0)
    reached.mostly_unwell(said(0, 6), 200.0)
    assert reached.mostly_unwell(said(5, 6), 201.0)
    assert not reached.mostly_unwell(said(5, 6), 201.0 + REMEMBERED_SECONDS)
    reached.mostly_unwell(said(0, 6), 9000.0)
    # Where the clock goes back, what was well before it was so now.
    assert reached.mostly_unwell(said(5, 6), 0.0)
    assert not reached.mostly_unwell(said(5, 6), REMEMBERED_SECONDS)


@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.sets(st.integers(0, 11)), st.booleans()), min_size=1, max_size=60),
)
def test_never_more_than_a_quarter_at_a_time_and_never_most(
    count: int, turns: list[tuple[Collection[int], bool]]
) -> None:
    pool = Pool(count)
    for numbers, starts in turns:
        names = [one.id for one in pool.intents]
        pool.ill = {names[number] for number in numbers if number < len(names)}
        serving = sum(one.ready for one in pool.intents)
        unready = len(pool.intents) - serving
        gone = pool.look(9.0)
        assert len(gone) + unready <= max(1, count // 4)
        if len(pool.ill) > 1:
            ill = sum(one.ready for one in pool.intents if one.id in pool.ill) + len(gone)
            assert not gone or 2 * ill <= serving
        if starts:
            pool.started()


async def test_a_wedged_replica_is_ended_and_another_takes_its_place(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 3)
        await world.round(one)
        await world.ready()
        await world.round(one)
        wedged = world.launcher.starts[1]
        world.wedged = {wedged}
        for _ in range(14):
            await world.ready(*world.launcher.replicas)
            await world.round(one, seconds=5.0)
        assert [id_ for id_, _ in world.launcher.stops] == [wedged]
        assert len(world.launcher.starts) == 4
        (pool,) = (await world.status()).pools
        assert [(failed.id, "wedged" in failed.problem) for failed in pool.failed] == [(wedged, True)]
        assert any(wedged in message for message in caplog.messages)


async def test_where_most_replicas_are_wedged_at_once_operators_are_told_alone(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 3)
        await world.round(one)
        await world.ready()
        world.wedged = set(world.launcher.starts)
        for _ in range(30):
            await world.ready()
            await world.round(one, seconds=5.0)
        assert world.launcher.stops == []
        assert any("3 of 3 replicas of pool p" in warning for warning in (await world.status()).warnings)
        assert sum("3 of 3 replicas of pool p" in message for message in caplog.messages) == 1


async def test_a_wedged_replica_of_a_paused_model_is_left_alone(store_url: str) -> None:
    async with scaled_world(store_url) as world:
        one = world.controller()
        want(one, 3)
        await world.round(one)
        await world.ready()
        await ScalingRegistry(world.store, world.config).pause("m", "a")
        world.wedged = set(world.launcher.starts[:1])
        for _ in range(30):
            await world.ready()
            await world.round(one, seconds=5.0)
        assert world.launcher.stops == []
