"""The next step of a rollout: pure functions of its state and of facts."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Final

import msgspec

from routing.rollouts.facts import Action, Facts, ReplicaFacts
from routing.rollouts.rollout import ENDED, MOST_EVENTS, SERVING, Cause, Event, Phase, Rollout
from routing.rollouts.settings import Plan

#: What each plan goes through, in order. A gate that is not configured is passed over.
COURSES: Final[Mapping[Plan, Sequence[Phase]]] = {
    "canary": ("preparing", "warming", "shifting", "promoting", "draining", "done"),
    "blue_green": ("preparing", "warming", "holding", "promoting", "draining", "done"),
    "shadow": ("preparing", "warming", "shadowing", "rolling_back", "done"),
    "ab": ("preparing", "warming", "testing", "promoting", "draining", "done"),
    "gates": (
        *("preparing", "warming", "smoke", "golden", "shadowing"),
        *("shifting", "promoting", "draining", "done"),
    ),
}
#: Phases whose outcome is settled: neither an abort nor a verdict changes it any more.
SETTLED: Final = ENDED | {"draining", "rolling_back"}
#: Seconds without any replica after which a candidate is gone.
AWAY_SECONDS: Final = 3.0
#: Seconds until all workers have surely followed a split and said what they still have.
FOLLOW_SECONDS: Final = 5.0
#: Seconds in which workers that begin reach the replicas that there are.
REACH_SECONDS: Final = 10.0
#: Seconds that the version which is left may have for the requests that it still has.
LEAVE_SECONDS: Final = 600.0
#: Phases in which no replica of the candidate need be warm.
BEFORE_WARM: Final[frozenset[Phase]] = frozenset({"preparing", "warming"})
#: The largest share of a candidate of which too little is known.
MOST_UNPROVEN: Final = 0.5
_GATES: Final[frozenset[Phase]] = frozenset({"smoke", "golden", "shadowing"})
#: Replicas that a sentence names at most.
_MOST_NAMED: Final = 4

_Next = tuple[Rollout, Sequence[Action]]


def advance(rollout: Rollout, facts: Facts, now: float) -> _Next:
    """Return the rollout as it goes on at `now`, by one step at most, and what is to be done meanwhile.

    It may be called again with the same facts, also by another controller that knows the rollout from the store alone.
    """
    if rollout.phase in ENDED:
        return rollout, ()
    rollout = _noted(rollout, facts)
    if rollout.phase in SETTLED:
        return _leaving(rollout, facts, now)
    if facts.wish == "abort":
        return _back(rollout, now, "aborted", "an operator has aborted it"), ()
    if (trouble := _trouble(rollout, facts)) is not None:
        return _back(rollout, now, *trouble), ()
    if facts.wish is None:
        waits = "what is wanted of it cannot be read by this program version"
        return _waits(rollout, waits), _kept_warm(rollout, facts)
    if (facts.wish == "pause") != (rollout.paused is not None):
        return _with_pause(rollout, now), ()
    if rollout.paused is not None:
        return rollout, _kept_warm(rollout, facts)
    # Until it is known how many replicas the stable version has, a promotion would be content with one.
    if facts.wish == "promote" and rollout.phase != "promoting" and rollout.size:
        return _to(rollout, now, "promoting", "promoted", "an operator has promoted it"), ()
    return _PHASES[rollout.phase](rollout, facts, now)


def lacking(rollout: Rollout, facts: Facts) -> str:
    """Say which replicas of the candidate the next stage still lacks; empty: none, or there is no such stage."""
    if rollout.phase != "shifting":
        return ""
    missing = _missing(rollout, facts, needed(rollout.size, _ahead(rollout)))
    cold = _warm_up(rollout, facts)
    return missing or (_warming_up(cold) if cold else "")


def needed(size: int, share: float) -> int:
    """Replicas that answer a share of the requests, where the stable version has `size` for all of them."""
    # 0.1 of 30 replicas shall be 3, not 4.
    return max(ceil(share * size - 1e-9), 1)


def target(rollout: Rollout) -> int:
    """Replicas that the candidate shall have in this phase."""
    settings = rollout.settings
    shares = settings.shares or (settings.shadow.share,)
    if rollout.phase in ("holding", "promoting", "draining", "done"):
        return needed(rollout.size, 1.0)
    if settings.plan in ("shadow", "ab"):
        return needed(rollout.size, shares[0])
    if settings.surge is None:
        return needed(rollout.size, max(shares))
    ahead = rollout.stage + 1 if rollout.phase == "shifting" else 0
    return needed(rollout.size, shares[ahead] if ahead < len(shares) else 1.0)


# ---- the phases


def _preparing(rollout: Rollout, facts: Facts, now: float) -> _Next:
    if not facts.heard:
        return _waits(rollout, "no worker says which replicas there are"), ()
    if not rollout.size and _is_size_known(rollout, facts, now):
        return msgspec.structs.replace(rollout, size=max(len(facts.stable.ready), 1)), ()
    missing = _missing(rollout, facts)
    if not rollout.size:
        missing = f"{len(facts.stable.ready)} of {_count(len(facts.stable.replicas))} of {rollout.stable} ready"
    if missing:
        if now - rollout.since > rollout.settings.warmup.timeout_seconds:
            return _back(rollout, now, "not_ready", f"{missing}, after {now - rollout.since:.0f} s"), ()
        return _waits(rollout, missing), ()
    return _to(rollout, now, "warming", "ready", f"{_count(len(facts.candidate.ready))} ready"), ()


def _is_size_known(rollout: Rollout, facts: Facts, now: float) -> bool:
    """Whether the stable version's replicas are all that it will have: workers that begin reach them one by one."""
    stable = facts.stable
    if stable.ready and len(stable.ready) == len(stable.replicas):
        return True
    # Some may be broken; while neither version has any, nothing is lost by waiting.
    return now - rollout.since >= REACH_SECONDS and bool(stable.ready or facts.candidate.ready)


def _warming(rollout: Rollout, facts: Facts, now: float) -> _Next:
    if missing := _missing(rollout, facts):
        if now - rollout.since > rollout.settings.warmup.timeout_seconds:
            return _back(rollout, now, "not_ready", f"{missing}, after {now - rollout.since:.0f} s"), ()
        return _waits(rollout, missing), ()
    cold = _cold(rollout, facts)
    if cold is not None:
        if now - rollout.since > rollout.settings.warmup.timeout_seconds:
            reason = f"{cold.id} is not warm after {now - rollout.since:.0f} s"
            return _back(rollout, now, "failed_warmup", reason), ()
        return _waits(rollout, f"{cold.id} is being warmed up"), (Action(what="warm_up", replica=cold),)
    reason = f"{_count(len(rollout.warmed))} warm" if rollout.warmed else "no warm-up is asked for"
    return _next(rollout, now, "warm", reason), ()


def _gate(rollout: Rollout, facts: Facts, now: float) -> _Next:
    result = facts.gate
    if result is None or result.gate != rollout.phase:
        said = f": {facts.gate_waits}" if facts.gate_waits else ""
        return _waits(rollout, f"the gate {rollout.phase} runs{said}"), (
            Action(what="run_gate"),
            *_warm_up(rollout, facts),
        )
    if result.passing != "passed":
        cause: Cause = "failed_gate" if result.passing == "failed" else "inconclusive"
        return _back(rollout, now, cause, result.reason), ()
    if rollout.settings.plan == "shadow":
        return _to(rollout, now, "rolling_back", "reported", result.reason), ()
    return _next(rollout, now, "passed", result.reason), ()


def _shifting(rollout: Rollout, facts: Facts, now: float) -> _Next:
    actions = _warm_up(rollout, facts)
    if waits := _held_back(rollout, facts, now):
        return _waits(rollout, waits), actions
    ahead = _ahead(rollout)
    if waits := _unproven(rollout, facts, ahead):
        return _waits(rollout, waits), actions
    if lacks := lacking(rollout, facts):
        if facts.lacking_seconds > rollout.settings.warmup.timeout_seconds:
            return _back(rollout, now, "not_ready", f"{lacks}, for {_percent(ahead)}"), ()
        return _waits(rollout, lacks), actions
    reason = _held(rollout, facts)
    if rollout.stage + 1 >= len(rollout.settings.shares):
        return _next(rollout, now, "held", reason), ()
    return _staged(rollout, now, rollout.stage + 1, "held", reason), ()


def _testing(rollout: Rollout, facts: Facts, now: float) -> _Next:
    """Both versions keep their shares: which one wins is a person's decision."""
    found = facts.compared.reason if facts.compared is not None else "nothing is measured yet"
    return _waits(rollout, f"until it is promoted or aborted: {found}"), _warm_up(rollout, facts)


def _holding(rollout: Rollout, facts: Facts, now: float) -> _Next:
    if waits := _held_back(rollout, facts, now):
        return _waits(rollout, waits), _warm_up(rollout, facts)
    return _next(rollout, now, "held", _held(rollout, facts)), ()


def _promoting(rollout: Rollout, facts: Facts, now: float) -> _Next:
    """The candidate comes to its full size before it is the stable version."""
    actions = _warm_up(rollout, facts)
    if missing := _missing(rollout, facts):
        return _waits(rollout, missing), actions
    if actions:
        return _waits(rollout, _warming_up(actions)), actions
    promoted = msgspec.structs.replace(rollout, promoted=True)
    return _to(promoted, now, "draining", "promoted", f"{rollout.candidate} is the stable version"), ()


def _leaving(rollout: Rollout, facts: Facts, now: float) -> _Next:
    """Wait until the version that is left has no more requests."""
    left = facts.stable if rollout.phase == "draining" else facts.candidate
    name = rollout.stable if rollout.phase == "draining" else rollout.candidate
    waited = now - rollout.since
    over: Phase = "rolled_back" if rollout.phase == "rolling_back" else "done"
    if rollout.phase == "rolling_back" and rollout.history[-1].cause == "reported":
        over = "done"
    if waited < LEAVE_SECONDS and (waited < FOLLOW_SECONDS or not facts.heard or left.in_flight):
        if not facts.heard:
            return _waits(rollout, f"no worker says which requests {name} still has"), ()
        if left.in_flight:
            return _waits(rollout, f"requests of {name} that are under way: {left.in_flight}"), ()
        return _waits(rollout, f"until all workers have surely left {name}"), ()
    reason = f"{name} has no more requests" if not left.in_flight else f"{name} had {LEAVE_SECONDS:.0f} s to end"
    done = _to(rollout, now, over, "drained", reason)
    return msgspec.structs.replace(done, ended=now), ()


_PHASES: Final[Mapping[Phase, Callable[[Rollout, Facts, float], _Next]]] = {
    "preparing": _preparing,
    "warming": _warming,
    "smoke": _gate,
    "golden": _gate,
    "shadowing": _gate,
    "shifting": _shifting,
    "testing": _testing,
    "holding": _holding,
    "promoting": _promoting,
}


# ---- what is looked at


def _noted(rollout: Rollout, facts: Facts) -> Rollout:
    """Take what has been measured since, and which replicas are warm. One that went and came back is cold again."""
    ready = {replica.id for replica in facts.candidate.ready}
    warmed = {id_: one for id_, one in rollout.warmed.items() if id_ in ready or not facts.heard}
    for id_, result in facts.warmups.items():
        if result.warmed is not None and id_ in ready:
            warmed[id_] = result.warmed
    compared = facts.compared
    return msgspec.structs.replace(
        rollout,
        warmed=warmed,
        requests=rollout.requests if compared is None else max(compared.requests - rollout.counted, 0),
        verdict=rollout.verdict if compared is None else compared.kind,
    )


def _trouble(rollout: Rollout, facts: Facts) -> tuple[Cause, str] | None:
    """Return why it is to be rolled back at once; None: it is not."""
    if facts.superseded:
        return "superseded", facts.superseded
    for result in facts.warmups.values():
        if result.warmed is None:
            return ("slow" if result.slow else "failed_warmup"), result.problem
    # One that is promoted before it has any requests may still be started.
    if rollout.phase not in SERVING or not rollout.share:
        return None
    # Workers that begin anew reach no version at first.
    if facts.heard and not facts.candidate.ready and facts.stable.ready and facts.away_seconds >= AWAY_SECONDS:
        return "gone", f"no replica of {rollout.candidate} is ready any more{_reasons(facts)}"
    # A promotion that an operator wants goes over what is measured, as long as there are replicas.
    compared = facts.compared
    if compared is not None and compared.kind == "worse" and facts.wish != "promote":
        return ("bounds" if compared.bound else "worse"), compared.reason
    return None


def _held_back(rollout: Rollout, facts: Facts, now: float) -> str:
    """Say what a stage still waits for; empty: nothing."""
    settings, compared = rollout.settings, facts.compared
    left = settings.hold_seconds - (now - rollout.since)
    if left > 0:
        return f"{left:.0f} s of {settings.hold_seconds:.0f} s are left"
    if rollout.requests < settings.min_requests:
        return f"{rollout.requests} of {settings.min_requests} requests were answered by {rollout.candidate}"
    # Whoever asks for no requests waits for none; what looks worse or cannot be compared holds all the same.
    if compared is not None and compared.kind == "inconclusive" and (settings.min_requests or not compared.short):
        return compared.reason
    return ""


def _ahead(rollout: Rollout) -> float:
    """Return the share of the stage after this one."""
    shares = rollout.settings.shares
    return 1.0 if rollout.stage + 1 >= len(shares) else shares[rollout.stage + 1]


def _unproven(rollout: Rollout, facts: Facts, ahead: float) -> str:
    """Say what keeps the candidate from getting most of the requests; empty: nothing, or it gets no more than half.

    Once it has all of them nothing is compared any more.
    """
    compared = facts.compared
    if compared is None or not rollout.settings.min_requests or ahead <= MOST_UNPROVEN or rollout.share >= 1.0:
        return ""
    return compared.unproven


def _held(rollout: Rollout, facts: Facts) -> str:
    seen = "nothing was measured" if facts.compared is None else facts.compared.reason
    return f"held for {rollout.settings.hold_seconds:g} s: {seen}"


def _missing(rollout: Rollout, facts: Facts, wanted: int | None = None) -> str:
    """Say which replicas of the candidate are missing; empty: none. Where nothing starts them, those there are it."""
    candidate = facts.candidate
    count = target(rollout) if wanted is None else wanted
    count = min(count, max(candidate.most if candidate.launched else len(candidate.replicas), 1))
    ready = len(candidate.ready)
    if ready >= count:
        return ""
    return f"{ready} of {_count(count)} of {rollout.candidate} ready{_reasons(facts)}"


def _reasons(facts: Facts) -> str:
    """Say why replicas of the candidate are not ready."""
    found = [f"{one.id}: {one.reason}" for one in facts.candidate.replicas if not one.ready and one.reason]
    found = [facts.candidate.problem, *found] if facts.candidate.problem else found
    return f" ({'; '.join(found[:_MOST_NAMED])})" if found else ""


def _cold(rollout: Rollout, facts: Facts) -> ReplicaFacts | None:
    """Return the next replica to warm up; None: all that are ready are warm."""
    if not rollout.settings.warmup.requests:
        return None
    cold = [replica for replica in facts.candidate.ready if replica.id not in rollout.warmed]
    return min(cold, key=lambda replica: replica.id, default=None)


def _warm_up(rollout: Rollout, facts: Facts) -> Sequence[Action]:
    cold = _cold(rollout, facts)
    return () if cold is None else (Action(what="warm_up", replica=cold),)


def _kept_warm(rollout: Rollout, facts: Facts) -> Sequence[Action]:
    """Return what is to be done while it stays where it is: a replica that comes back has its part of the requests."""
    return () if rollout.phase in BEFORE_WARM else _warm_up(rollout, facts)


def _warming_up(actions: Sequence[Action]) -> str:
    named = [action.replica.id for action in actions if action.replica is not None]
    return f"{', '.join(named)} {'is' if len(named) == 1 else 'are'} being warmed up"


# ---- steps


def _next(rollout: Rollout, now: float, cause: Cause, reason: str) -> Rollout:
    """Go on to what the plan has next."""
    course = COURSES[rollout.settings.plan]
    left = list(course[course.index(rollout.phase) + 1 :])
    while (left[0] == "golden" and rollout.settings.gates.golden is None) or (
        left[0] == "smoke" and not rollout.settings.gates.smoke
    ):
        left.pop(0)
    return _to(rollout, now, left[0], cause, reason)


def _to(rollout: Rollout, now: float, phase: Phase, cause: Cause, reason: str) -> Rollout:
    moved = msgspec.structs.replace(rollout, phase=phase)
    if phase in ("shifting", "testing", "holding"):
        return _staged(moved, now, 0, cause, reason)
    share = rollout.share if phase == "promoting" else 0.0
    return _stepped(moved, now, share, cause, reason)


def _staged(rollout: Rollout, now: float, stage: int, cause: Cause, reason: str) -> Rollout:
    return _stepped(msgspec.structs.replace(rollout, stage=stage), now, rollout.settings.shares[stage], cause, reason)


def _back(rollout: Rollout, now: float, cause: Cause, reason: str) -> Rollout:
    """Give everything back to the stable version, at once."""
    return _to(rollout, now, "rolling_back", cause, reason)


def _with_pause(rollout: Rollout, now: float) -> Rollout:
    """Begin a pause, or end it: a stage lasts longer by as long as it was paused."""
    if rollout.paused is None:
        return told(msgspec.structs.replace(rollout, paused=now), now, "paused", "an operator has paused it")
    since = rollout.since + max(now - rollout.paused, 0.0)
    return told(msgspec.structs.replace(rollout, paused=None, since=since), now, "resumed", "an operator lets it go on")


def _stepped(rollout: Rollout, now: float, share: float, cause: Cause, reason: str) -> Rollout:
    """Begin a phase or stage: what was measured before is told with the step, and counted anew."""
    moved = msgspec.structs.replace(
        rollout,
        share=share,
        # What the shadow answers, and each share, is measured apart.
        epoch=rollout.epoch + (share != rollout.share or rollout.phase in _GATES or rollout.phase in SERVING),
        since=now,
        paused=None,
    )
    return msgspec.structs.replace(
        told(moved, now, cause, reason),
        counted=rollout.counted + rollout.requests,
        requests=0,
        verdict=None,
        problem="",
    )


def told(rollout: Rollout, now: float, cause: Cause, reason: str) -> Rollout:
    """Return the rollout with an event about its present phase."""
    event = Event(
        rollout=rollout.id,
        number=rollout.steps + 1,
        at=now,
        model=rollout.model,
        candidate=rollout.candidate,
        phase=rollout.phase,
        stage=rollout.stage,
        share=rollout.share,
        cause=cause,
        reason=reason,
        verdict=rollout.verdict,
        requests=rollout.requests,
    )
    return msgspec.structs.replace(
        rollout, reason=reason, steps=rollout.steps + 1, history=[*rollout.history, event][-MOST_EVENTS:]
    )


def _waits(rollout: Rollout, problem: str) -> Rollout:
    return msgspec.structs.replace(rollout, problem=problem)


def _count(replicas: int) -> str:
    return f"{replicas} replica" if replicas == 1 else f"{replicas} replicas"


def _percent(share: float) -> str:
    return f"{100 * share:g} %"
