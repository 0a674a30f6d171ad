"""Bring a pool's replicas to what is wanted: what to write down, to start and to stop. It does nothing by itself.

An intent goes from `run` through `drain` to `stop`, and is dropped once its replica is gone. A replica that has no
intent is taken over, and one that is missing is given up, only after it was seen so twice.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Final

import msgspec

from gateway.scaling.facts.pool_facts import PoolFacts, Use, step_of
from gateway.scaling.facts.unwell import UnwellReplicas, unwell
from gateway.scaling.intents import Intent
from gateway.scaling.settings import ScaledPool
from replicas.launchers.launcher import LaunchedReplica, LaunchStep

#: Seconds between the two looks after which something unexpected is believed.
TWICE_SECONDS: Final = 2.0
#: Seconds that requests at a draining replica have before they go on elsewhere.
DRAIN_SECONDS: Final = 30.0
#: Seconds that workers get to heed a drain, and to move what is left at its end.
HEED_SECONDS: Final = 1.5
MOVE_SECONDS: Final = 3.0
#: Seconds that a replica gets to end by itself when it is stopped.
STOP_SECONDS: Final = 10.0
#: Seconds before its end at which a preempted replica's requests go on elsewhere.
PREEMPTED_SECONDS: Final = 15.0
#: Seconds until a start is asked for again, at first and at most, and after which one that nobody sees is given up.
FIRST_RETRY, LAST_RETRY = 2.0, 60.0
UNSEEN_SECONDS: Final = 120.0
#: Seconds for which a pool does not grow after nowhere was room for a replica of it, at first and at most.
UNPLACED_FIRST, UNPLACED_LONGEST = 60.0, 900.0
#: Seconds between two looks that count as service at most.
LONGEST_ROUND_SECONDS: Final = 10.0
#: Failed starts that are shown, and for how many seconds.
MOST_FAILURES: Final = 8
SHOWN_SECONDS: Final = 600.0


class Failure(msgspec.Struct, frozen=True):
    """A start that failed, or a replica that ended by itself."""

    at: float
    intent: Intent
    problem: str


class Wanted(msgspec.Struct, frozen=True):
    """How many replicas shall run, `spot` of them on preemptible capacity."""

    replicas: int
    spot: int = 0


class Plan(msgspec.Struct):
    """What is to be done for a pool: intents written (or removed) first, then the launcher's calls."""

    puts: dict[str, Intent]
    drops: set[str]
    starts: list[Intent]
    #: With the grace of each, in seconds.
    stops: dict[str, float]


class PoolReconciler:
    """One controller's view of one pool; `plan` is called about once a second while the launcher answers."""

    def __init__(self, pool: ScaledPool, new_id: Callable[[], str]) -> None:
        """`new_id` gives ids that are unique for ever."""
        self._pool = pool
        self._new_id = new_id
        #: When something unexpected was first seen, by replica.
        self._odd_since: dict[str, float] = {}
        #: When a start was asked for first and last, and how often, by replica.
        self._asked: dict[str, tuple[float, float, int]] = {}
        self._told: dict[str, float] = {}
        self._unready: set[str] = set()
        self._failed_in_a_row = 0
        self._unplaced_in_a_row = 0
        self._start_at = 0.0
        self._start_problem = ""
        self.failures: list[Failure] = []
        #: Starts that failed, and replicas that ended by themselves.
        self.failed = 0
        #: Seconds that starts have taken, which nobody has read yet.
        self.startups: list[float] = []
        #: Seconds that spot replicas have served, and how many were taken away, which nobody has read yet.
        self.spot_seconds = 0.0
        self.interruptions = 0
        self._looked_at: float | None = None
        self.unwell = UnwellReplicas(pool.name, pool.start_timeout)

    def plan(self, intents: Sequence[Intent], facts: PoolFacts, wanted: Wanted | None) -> Plan:
        """Return what is to be done; `wanted` None: nothing is started or drained, and what is under way is ended."""
        plan = Plan({}, set(), [], {})
        now = facts.now
        self.failures = [one for one in self.failures if now - one.at < SHOWN_SECONDS][-MOST_FAILURES:]
        kept = []
        for stored in intents:
            # Where the clock has gone back, its time begins anew.
            intent = stored if stored.since <= now + 1.0 else msgspec.structs.replace(stored, since=now)
            left = self._look_at(intent, facts, plan, start=wanted is not None)
            if left is not None:
                kept.append(left)
        self._count_spot(kept, now)
        known = {intent.id for intent in intents}
        taken, doubtful = self._strangers([one for id_, one in facts.observed.items() if id_ not in known], now, plan)
        kept += taken
        if wanted is not None:
            kept = self._replaced(kept, facts, plan)
            for spot in (False, True):
                count = wanted.spot if spot else wanted.replicas - wanted.spot
                of_kind = [intent for intent in kept if intent.spot is spot]
                # What may be taken over in a moment is not started once more.
                coming = sum(replica.spot is spot for replica in doubtful)
                self._resize(of_kind, count, coming, facts, plan, spot=spot)
        else:
            # Whether one would be replaced is not looked at.
            self.unwell.warning = ""
        for id_ in [*self._asked, *self._told]:
            if id_ not in known and id_ not in plan.puts:
                self._asked.pop(id_, None)
                self._told.pop(id_, None)
        return plan

    def start_failed(self, problem: str, now: float) -> None:
        """Note that the launcher could not start replicas: more are asked for only after a pause, longer each time."""
        self._start_problem = problem
        self._pause(now)

    def unavailable(self, now: float) -> str:
        """Why the pool cannot grow now; empty: it can."""
        return self._start_problem if now < self._start_at else ""

    # ---- one replica

    def _look_at(self, intent: Intent, facts: PoolFacts, plan: Plan, *, start: bool) -> Intent | None:
        """Take one intent a step further; returns it as it is then, None where it is dropped."""
        seen = facts.observed.get(intent.id)
        if seen is None:
            return self._unseen(intent, facts, plan, start=start)
        self._odd_since.pop(intent.id, None)
        if seen.step is LaunchStep.FAILED:
            if intent.state == "run":
                self._give_up(intent, seen.problem or "it has ended by itself", facts.now)
                if seen.is_unplaced:
                    self._no_room(seen.problem, facts.now)
            # Its launcher shows it until it is told to forget it.
            plan.stops[intent.id] = 0.0
            plan.drops.add(intent.id)
            return None
        known = facts.announced.get(intent.id)
        address = known.address if known is not None else seen.address
        changed = msgspec.structs.replace(intent, seen=True, address=address or intent.address)
        step = step_of(intent, facts)
        if changed.state == "run":
            changed = self._run(changed, seen, step, facts.now)
        return self._end(intent, changed, step, facts, plan)

    def _end(self, before: Intent, intent: Intent, step: LaunchStep, facts: PoolFacts, plan: Plan) -> Intent:
        """Stop a replica that has drained; write down what has changed."""
        if intent.state == "drain" and self._has_drained(intent, step, facts):
            intent = msgspec.structs.replace(intent, state="stop")
        if intent.state == "stop":
            self._stop(intent, facts.now, plan)
        if intent != before:
            plan.puts[intent.id] = intent
        return intent

    def _unseen(self, intent: Intent, facts: PoolFacts, plan: Plan, *, start: bool) -> Intent | None:
        now = facts.now
        known = facts.announced.get(intent.id)
        if known is not None:
            # It runs, whatever its launcher has forgotten.
            return self._end(intent, msgspec.structs.replace(intent, address=known.address), known.step, facts, plan)
        if intent.state != "run":
            if not intent.seen:
                # It may be starting.
                plan.stops[intent.id] = 0.0
            plan.drops.add(intent.id)
            return None
        if intent.seen:
            if self._is_odd(intent.id, now):
                self._give_up(intent, "its launcher no longer shows it", now)
                plan.stops[intent.id] = 0.0
                plan.drops.add(intent.id)
                return None
            return intent
        first, last, times = self._asked.get(intent.id, (now, 0.0, 0))
        if times and now - first > UNSEEN_SECONDS:
            self._give_up(intent, f"its launcher has not shown it {UNSEEN_SECONDS:.0f} s after its start", now)
            plan.stops[intent.id] = 0.0
            plan.drops.add(intent.id)
            return None
        if start and (not times or now - last >= min(FIRST_RETRY * 2**times, LAST_RETRY)):
            self._asked[intent.id] = (first, now, times + 1)
            plan.starts.append(intent)
        return intent

    def _run(self, intent: Intent, seen: LaunchedReplica, step: LaunchStep, now: float) -> Intent:
        if step is LaunchStep.READY:
            if not intent.ready and (intent.id in self._unready or intent.id in self._asked):
                self.startups.append(max(now - intent.made, 0.0))
            self._unready.discard(intent.id)
            intent = msgspec.structs.replace(intent, ready=True)
            self._failed_in_a_row, self._start_at, self._start_problem = 0, 0.0, ""
            self._unplaced_in_a_row = 0
        elif step is not LaunchStep.STOPPING:
            self._unready.add(intent.id)
            if not intent.ready and now - intent.made > self._pool.start_timeout:
                self._give_up(intent, f"it was not ready {self._pool.start_timeout:.0f} s after its start", now)
                return msgspec.structs.replace(intent, state="stop", since=now, grace=0.0)
        if step is LaunchStep.STOPPING:
            return msgspec.structs.replace(intent, state="stop", since=now, grace=0.0)
        if seen.preempted_at is not None:
            self.interruptions += 1
            grace = min(max(seen.preempted_at - PREEMPTED_SECONDS - now, 0.0), DRAIN_SECONDS)
            return msgspec.structs.replace(intent, state="drain", since=now, grace=grace)
        return intent

    def _has_drained(self, intent: Intent, step: LaunchStep, facts: PoolFacts) -> bool:
        lasted = facts.now - intent.since
        if step is not LaunchStep.READY or lasted >= intent.grace + MOVE_SECONDS:
            return True
        if lasted < HEED_SECONDS or not facts.all_heard:
            # One that has not reported again since an outage of the store may have requests there.
            return False
        use = facts.uses.get(intent.address)
        if use is None:
            # No worker knows it. Where none says anything, nothing follows from that.
            return bool(facts.uses)
        return use.drained and not use.in_flight

    def _stop(self, intent: Intent, now: float, plan: Plan) -> None:
        """Tell the launcher, and tell it again where the replica does not go."""
        told = self._told.get(intent.id)
        if told is None or now - told > 2 * STOP_SECONDS:
            self._told[intent.id] = now
            plan.stops[intent.id] = STOP_SECONDS

    def _count_spot(self, intents: Sequence[Intent], now: float) -> None:
        passed = 0.0 if self._looked_at is None else min(now - self._looked_at, LONGEST_ROUND_SECONDS)
        self._looked_at = now
        self.spot_seconds += passed * sum(intent.spot and intent.ready for intent in intents)

    def _is_odd(self, id_: str, now: float) -> bool:
        """Whether what is unexpected about a replica was seen before, some time ago."""
        return now - self._odd_since.setdefault(id_, now) >= TWICE_SECONDS

    def _give_up(self, intent: Intent, problem: str, now: float) -> None:
        self._unready.discard(intent.id)
        self.interruptions += intent.spot and intent.ready
        self.failures.append(Failure(now, intent, problem))
        self.failed += 1
        self._pause(now)

    def _pause(self, now: float) -> None:
        self._start_at = now + min(FIRST_RETRY * 2**self._failed_in_a_row, LAST_RETRY)
        self._failed_in_a_row = min(self._failed_in_a_row + 1, 16)

    def _no_room(self, problem: str, now: float) -> None:
        """Leave it to other pools for a while: another replica would not be placed either."""
        self._start_problem = problem
        self._start_at = max(self._start_at, now + min(UNPLACED_FIRST * 2**self._unplaced_in_a_row, UNPLACED_LONGEST))
        self._unplaced_in_a_row = min(self._unplaced_in_a_row + 1, 16)

    # ---- the pool

    def _replaced(self, intents: Sequence[Intent], facts: PoolFacts, plan: Plan) -> list[Intent]:
        """End those that are wedged, so that others are started; returns all intents as they are then."""
        ended = {}
        free = [intent for intent in intents if intent.address not in facts.held]
        for intent, problem in self.unwell.to_replace(free, facts):
            # It is no start that has failed, so the next one need not wait.
            self.failures.append(Failure(facts.now, intent, problem))
            self.failed += 1
            ended[intent.id] = msgspec.structs.replace(intent, state="stop", since=facts.now, grace=0.0)
            self._stop(ended[intent.id], facts.now, plan)
        plan.puts.update(ended)
        return [ended.get(intent.id, intent) for intent in intents]

    def _strangers(
        self, seen: Sequence[LaunchedReplica], now: float, plan: Plan
    ) -> tuple[list[Intent], list[LaunchedReplica]]:
        """Take over replicas that the store does not know: a surplus then drains like any other.

        Returns their intents, and those replicas that were seen so only once.
        """
        taken, doubtful = [], []
        for replica in seen:
            if replica.step is LaunchStep.STOPPING:
                continue
            if not self._is_odd(replica.id, now):
                if replica.step is not LaunchStep.FAILED:
                    doubtful.append(replica)
                continue
            del self._odd_since[replica.id]
            if replica.step is LaunchStep.FAILED:
                plan.stops[replica.id] = 0.0
                continue
            intent = new_intent(self._pool, replica.id, replica.since, spot=replica.spot)
            intent = msgspec.structs.replace(intent, seen=True, address=replica.address)
            plan.puts[intent.id] = intent
            taken.append(intent)
        return taken, doubtful

    def _resize(
        self, intents: Sequence[Intent], count: int, coming: int, facts: PoolFacts, plan: Plan, *, spot: bool
    ) -> None:
        running = [intent for intent in intents if intent.state == "run"]
        now = facts.now
        if len(running) > count:
            free = [intent for intent in running if intent.address not in facts.held]
            for intent in sorted(free, key=lambda intent: _worth(intent, facts))[: len(running) - count]:
                self._retire(intent, facts, plan)
            return
        missing = max(count - len(running) - coming, 0)
        coming_back = [intent for intent in intents if intent.state == "drain" and _may_stay(intent, facts)]
        for intent in sorted(coming_back, key=lambda intent: -intent.since)[:missing]:
            plan.puts[intent.id] = msgspec.structs.replace(intent, state="run", since=now, grace=0.0)
            missing -= 1
        if now < self._start_at:
            return
        for _ in range(missing):
            intent = new_intent(self._pool, self._new_id(), now, spot=spot)
            plan.puts[intent.id] = intent
            plan.starts.append(intent)
            self._asked[intent.id] = (now, now, 1)

    def _retire(self, intent: Intent, facts: PoolFacts, plan: Plan) -> None:
        """Drain a replica that serves; stop one that does not yet."""
        serves = step_of(intent, facts) is LaunchStep.READY
        now = facts.now
        if serves:
            plan.puts[intent.id] = msgspec.structs.replace(intent, state="drain", since=now, grace=DRAIN_SECONDS)
            return
        ended = msgspec.structs.replace(intent, state="stop", since=now)
        plan.puts[intent.id] = ended
        plan.starts[:] = [one for one in plan.starts if one.id != intent.id]
        self._stop(ended, now, plan)


def _worth(intent: Intent, facts: PoolFacts) -> tuple[int, bool, float, float, float]:
    """Order replicas by what is lost with them, the least first.

    Those that serve no more go first, then those that do not serve yet, the last started before others; then those with
    the least cached and running. Where a launcher can only end the last of them, that comes before everything.
    """
    seen = facts.observed.get(intent.id)
    place = -seen.place if seen is not None and seen.place is not None else 0
    serves = step_of(intent, facts) is LaunchStep.READY
    if unwell(intent, facts):
        return place, False, -inf, 0.0, 0.0
    if not serves:
        return place, False, -intent.made, 0.0, 0.0
    use: Use | None = facts.uses.get(intent.address)
    if use is None:
        return place, True, 0.0, 0.0, -intent.made
    return place, True, use.kv_used, float(use.in_flight), -intent.made


def new_intent(pool: ScaledPool, id_: str, now: float, *, spot: bool = False) -> Intent:
    """Return an intent that a replica of the pool shall run."""
    return Intent(
        id=id_,
        model=pool.model,
        pool=pool.name,
        shape=pool.scaling.shape,
        role=pool.scaling.role,
        version=pool.version,
        spot=spot,
        made=now,
        since=now,
    )


def _may_stay(intent: Intent, facts: PoolFacts) -> bool:
    seen = facts.observed.get(intent.id)
    return seen is not None and seen.preempted_at is None


def by_pool(observed: Sequence[LaunchedReplica]) -> Mapping[tuple[str, str], dict[str, LaunchedReplica]]:
    """Group what a launcher shows by model and pool."""
    found: dict[tuple[str, str], dict[str, LaunchedReplica]] = {}
    for replica in observed:
        found.setdefault((replica.model, replica.pool), {})[replica.id] = replica
    return found
