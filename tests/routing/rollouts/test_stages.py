"""What holds of every rollout, whatever comes."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.rollouts.facts import Compared, Facts, GateResult, Passing, ReplicaFacts, VersionFacts, WarmupResult
from routing.rollouts.rollout import ENDED, ROLLBACKS, SERVING, Phase, Rollout, Warmed
from routing.rollouts.settings import Goal, Warmup
from routing.rollouts.settings import Rollout as Settings
from routing.rollouts.split_of import split_of
from routing.rollouts.stages import COURSES, REACH_SECONDS, SETTLED, advance, needed, target
from routing.rollouts.verdicts.verdict import Kind

PLANS = list(COURSES)
WARM = Warmed(requests=1, ttft_seconds=0.1, tpot_seconds=0.01)


def begun(**changes: Any) -> Rollout:
    plan = changes.pop("plan", "canary")
    goal = Goal(measure="ttft") if plan == "ab" else None
    asked = Settings(model="m", to="v2", plan=plan, hold_seconds=2, min_requests=10, goal=goal, **changes)
    return Rollout(
        id="r",
        model="m",
        stable="v1",
        candidate="v2",
        configured="v1",
        settings=asked,
        actor="me",
        started=0.0,
        phase="preparing",
        since=0.0,
    )


def version(count: int, in_flight: int = 0) -> VersionFacts:
    return VersionFacts(
        replicas=[
            ReplicaFacts(id=f"p/{number}", pool="p", address="a", ready=True, in_flight=in_flight)
            for number in range(count)
        ]
    )


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    ready = draw(st.integers(0, 3))
    warmups = draw(st.sampled_from(["", "passed", "passed", "slow"]))
    results = {
        one.id: WarmupResult(replica=one.id, warmed=WARM if warmups == "passed" else None, slow=warmups == "slow")
        for one in version(ready).replicas
        if warmups
    }
    kinds: list[Kind | None] = [None, "as_good", "as_good", "better", "inconclusive", "worse"]
    gates: list[Phase | None] = [None, "smoke", "golden", "shadowing"]
    kind, gate = draw(st.sampled_from(kinds)), draw(st.sampled_from(gates))
    return Facts(
        wish=draw(st.sampled_from(["run"] * 12 + ["pause", "promote", "abort", None])),
        heard=draw(st.sampled_from([True] * 5 + [False])),
        stable=version(draw(st.integers(1, 4)), draw(st.integers(0, 1))),
        candidate=version(ready, draw(st.integers(0, 1))),
        away_seconds=draw(st.sampled_from([0.0, 2.0, 9.0])),
        compared=None if kind is None else Compared(kind=kind, reason="", requests=draw(st.integers(0, 400))),
        warmups=results,
        gate=None
        if gate is None
        else GateResult(gate=gate, passing=draw(st.sampled_from(get_args(Passing))), reason=""),
    )


def restored(rollout: Rollout) -> Rollout:
    """As another controller finds it in the store."""
    return msgspec.json.decode(msgspec.json.encode(rollout), type=Rollout)


@settings(max_examples=100)
@given(st.sampled_from(PLANS), st.lists(st.tuples(facts(), st.floats(0.1, 5.0)), max_size=60))
def test_a_rollout_is_never_half_and_half(plan: str, steps: list[tuple[Facts, float]]) -> None:
    rollout, now = begun(plan=plan), 0.0
    for found, seconds in steps:
        now += seconds
        before = rollout
        rollout, actions = advance(before, found, now)
        again, same = advance(restored(before), found, now)
        assert (restored(again), same) == (restored(rollout), actions)
        split = split_of(rollout)
        # The candidate answers only where it may, and nobody but the two versions ever does.
        assert (split.share > 0) <= (rollout.phase in SERVING)
        assert split.stable == ("v2" if rollout.promoted else "v1")
        assert (split.candidate == "") == (rollout.phase in SETTLED)
        # What is settled stays so, and one event is told of each step.
        if rollout.phase == "rolling_back" and rollout.history[-1].cause != "reported":
            assert rollout.history[-1].cause in ROLLBACKS
        if before.phase in SETTLED:
            assert rollout.phase in (before.phase, *ENDED)
            assert rollout.promoted == before.promoted
        assert rollout.steps - before.steps == len(rollout.history) - len(before.history) <= 1
        if before.phase == rollout.phase == "shifting":
            assert rollout.stage - before.stage in (0, 1)
        if rollout.epoch == before.epoch:
            assert rollout.share == before.share
        assert rollout.since <= now
        assert not (actions and rollout.phase in SETTLED)
        # One that is promoted before it has any requests cannot be worse than another.
        worse = found.compared is not None and found.compared.kind == "worse" and found.wish != "promote"
        worse = worse and before.share > 0
        if before.phase in SERVING and (worse or found.wish == "abort"):
            assert (rollout.phase, rollout.share) == ("rolling_back", 0.0)


@pytest.mark.parametrize("plan", PLANS)
def test_a_good_candidate_comes_through_every_plan(plan: str) -> None:
    rollout, now = begun(plan=plan), 0.0
    phases = [rollout.phase]
    for _ in range(60):
        now += 1.0
        warmups = {one.id: WarmupResult(replica=one.id, warmed=WARM) for one in version(2).replicas}
        found = Facts(
            # An A/B test ends when somebody says so.
            wish="promote" if rollout.phase == "testing" and now > 20 else "run",
            stable=version(2),
            candidate=version(2),
            compared=Compared(kind="as_good", reason="", requests=int(100 * now)) if rollout.share else None,
            warmups=warmups,
            gate=GateResult(gate=rollout.phase, passing="passed", reason=""),
        )
        rollout, _ = advance(rollout, found, now)
        if rollout.phase != phases[-1]:
            phases.append(rollout.phase)
    # No golden set is configured.
    assert phases == [phase for phase in COURSES[rollout.settings.plan] if phase != "golden"]
    assert rollout.promoted == (plan != "shadow")


def test_a_candidate_grows_at_once_or_by_surge() -> None:
    assert [needed(30, share) for share in (0.01, 0.1, 0.25, 0.5, 1.0)] == [1, 3, 8, 15, 30]
    whole = msgspec.structs.replace(begun(), size=10)
    assert target(whole) == 10
    surging = msgspec.structs.replace(begun(surge=2), size=10)
    assert target(surging) == 1
    shifting = msgspec.structs.replace(surging, phase="shifting", stage=1)
    # The next stage's replicas start while this one is held.
    assert target(shifting) == 5
    assert target(msgspec.structs.replace(shifting, phase="promoting")) == 10


def test_a_promotion_before_all_else_waits_for_as_many_replicas_as_are_stable() -> None:
    found = Facts(wish="promote", stable=version(3), away_seconds=60.0)
    rollout = begun()
    for now, ready in enumerate((0, 0, 1, 2)):
        rollout, _ = advance(rollout, msgspec.structs.replace(found, candidate=version(ready)), float(now))
        assert (rollout.phase, rollout.size, rollout.share) == ("promoting" if now else "preparing", 3, 0.0)


def test_workers_that_begin_have_time_to_say_how_many_replicas_are_stable() -> None:
    """As where the whole gateway begins with a rollout in its file."""
    away = VersionFacts(replicas=[msgspec.structs.replace(one, ready=False) for one in version(4).replicas])
    part = VersionFacts(replicas=[*version(1).replicas, *away.replicas[1:]])
    for stable in (VersionFacts(), away, part):
        rollout, _ = advance(begun(), Facts(stable=stable, candidate=version(4)), 1.0)
        assert (rollout.phase, rollout.size) == ("preparing", 0)
        assert "of v1 ready" in rollout.problem
    rollout, _ = advance(rollout, Facts(stable=version(4), candidate=version(4)), 2.0)
    assert rollout.size == 4
    # One that does not come is not waited for, nor a version without any while the candidate has some.
    for stable, size in ((part, 1), (VersionFacts(), 1)):
        rollout, _ = advance(begun(), Facts(stable=stable, candidate=version(4)), REACH_SECONDS)
        assert rollout.size == size
    rollout, _ = advance(begun(), Facts(stable=away), REACH_SECONDS)
    assert rollout.size == 0
    rollout, _ = advance(begun(), Facts(stable=away), 2000.0)
    assert rollout.history[-1].cause == "not_ready"


def test_a_pause_makes_a_stage_longer_by_its_time() -> None:
    rollout = msgspec.structs.replace(begun(), phase="shifting", share=0.1, size=2, warmed={"p/0": WARM})
    found = Facts(stable=version(2), candidate=version(1), compared=Compared(kind="as_good", reason="", requests=500))
    paused, _ = advance(rollout, msgspec.structs.replace(found, wish="pause"), 1.0)
    still, _ = advance(paused, msgspec.structs.replace(found, wish="pause"), 50.0)
    assert (still.stage, still.problem) == (0, paused.problem)
    resumed, _ = advance(still, found, 100.0)
    assert resumed.since == 99.0
    waiting, _ = advance(resumed, found, 100.5)
    assert (waiting.stage, waiting.problem) == (0, "0 s of 2 s are left")


@pytest.mark.parametrize("phase", ["shifting", "testing", "holding", "promoting", "shadowing"])
def test_a_replica_that_comes_later_is_warmed_up_before_it_takes_requests(phase: Phase) -> None:
    plan = {"testing": "ab", "holding": "blue_green", "shadowing": "gates"}.get(phase, "canary")
    one = begun(plan=plan)
    share = 0.5 if phase in SERVING else 0.0
    one = msgspec.structs.replace(one, phase=phase, share=share, size=2, warmed={"p/0": WARM})
    # Long before the stage is over, and while others are still missing.
    after, actions = advance(one, Facts(stable=version(2), candidate=version(2)), one.since + 0.1)
    assert [action.replica.id for action in actions if action.replica is not None] == ["p/1"]
    assert split_of(after).warm == frozenset({"p/0"})
    done = {"p/1": WarmupResult(replica="p/1", warmed=WARM)}
    after, _ = advance(after, Facts(stable=version(2), candidate=version(2), warmups=done), one.since + 0.2)
    assert split_of(after).warm == (None if after.promoted else {"p/0", "p/1"})
    # So it is while it is paused, however long that is.
    paused = msgspec.structs.replace(one, paused=one.since)
    _, actions = advance(paused, Facts(wish="pause", stable=version(2), candidate=version(2)), one.since + 9.0)
    assert [action.replica.id for action in actions if action.replica is not None] == ["p/1"]


def test_a_replica_that_is_missing_for_a_moment_is_waited_for_however_long_the_stage_has_been() -> None:
    one = msgspec.structs.replace(begun(), phase="shifting", share=0.1, size=2, warmed={"p/0": WARM})
    found = Facts(stable=version(2), candidate=version(2), compared=Compared(kind="as_good", reason="", requests=500))
    after, actions = advance(one, msgspec.structs.replace(found, lacking_seconds=9.0), 86_400.0)
    assert (after.phase, after.problem) == ("shifting", "p/1 is being warmed up")
    assert actions
    after, _ = advance(one, msgspec.structs.replace(found, lacking_seconds=1801.0), 86_400.0)
    assert (after.history[-1].cause, after.reason) == ("not_ready", "p/1 is being warmed up, for 25 %")


def test_without_a_warm_up_all_replicas_take_requests() -> None:
    one = begun(warmup=Warmup(requests=0))
    assert split_of(msgspec.structs.replace(one, phase="shifting", share=0.5)).warm is None


@pytest.mark.parametrize(("stage", "held"), [(0, False), (1, False), (2, True), (3, True), (4, False)])
def test_most_requests_go_to_a_candidate_only_once_enough_is_known_of_it(stage: int, held: bool) -> None:
    one = begun()
    share = one.settings.shares[stage]
    one = msgspec.structs.replace(one, phase="shifting", stage=stage, share=share, size=1, warmed={"p/0": WARM})
    found = Compared(kind="as_good", reason="", requests=1000, unproven="too few calls")
    facts = Facts(stable=version(1), candidate=version(1), compared=found)
    after, _ = advance(one, facts, 60.0)
    went_on = ("shifting", stage + 1, "") if stage < 4 else ("promoting", 4, "")
    assert (after.phase, after.stage, after.problem) == (("shifting", stage, "too few calls") if held else went_on)
    # Whoever wants no requests waits for none.
    settings = msgspec.structs.replace(one.settings, min_requests=0)
    after, _ = advance(msgspec.structs.replace(one, settings=settings), facts, 60.0)
    assert (after.phase, after.stage) != ("shifting", stage)


@pytest.mark.parametrize(("least", "short", "held"), [(10, True, True), (0, True, False), (0, False, True)])
def test_a_failed_comparison_holds_a_stage_that_waits_for_no_requests(least: int, short: bool, held: bool) -> None:
    one = begun()
    settings = msgspec.structs.replace(one.settings, min_requests=least)
    one = msgspec.structs.replace(one, settings=settings, phase="shifting", share=0.1, size=1, warmed={"p/0": WARM})
    found = Compared(kind="inconclusive", reason="it cannot be said", requests=100, short=short)
    after, _ = advance(one, Facts(stable=version(1), candidate=version(1), compared=found), 60.0)
    assert (after.stage == 0) == held
    assert after.problem == ("it cannot be said" if held else "")
