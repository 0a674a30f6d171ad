"""The controller's part for one model: what it remembers, the snapshot it decides on, the decision, and its pools."""

import logging
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from gateway.scaling.demand.demand_reports import ModelReport
from gateway.scaling.demand.merged_demand import PoolKnowledge, merged_demand, pool_knowledge
from gateway.scaling.facts.pool_facts import PoolFacts, step_of
from gateway.scaling.intents import Intent
from gateway.scaling.learned_pools import Learned, with_knowledge, with_spot, with_startups
from gateway.scaling.overrides import NO_OVERRIDE, Override
from gateway.scaling.reconcile import Plan, PoolReconciler, Wanted
from gateway.scaling.settings import ScaledModel, ScaledPool
from gateway.scaling.shape_holds import NO_HOLDS, ShapeHolds, with_holds
from gateway.scaling.spot_prices import SpotPrice
from gateway.scaling.status import MOST_DECISIONS, DecisionRecord, PoolDecided
from gateway.scaling.stored_rates import StoredRates, usable
from gateway.scaling.version_sizes import NO_SIZES, VersionSizes, with_sizes
from replicas.controller.decision import Decision, PoolDecision, Scaler
from replicas.controller.snapshot import Demand, Forecast, PoolSnapshot, Snapshot
from replicas.launchers.launcher import LaunchStep
from routing.estimates.step_model import StepModel

log = logging.getLogger(__name__)

#: A decision that is like the last one is recorded again after so many seconds.
RECORD_SECONDS = 60.0
_FIGURES = re.compile(r"[0-9.,]+")


class RememberingScaler(Scaler, Protocol):
    """A scaler whose memory another controller can go on from."""

    def memory(self) -> bytes:
        """What it remembers."""
        ...

    def restore(self, memory: bytes) -> bool:
        """Go on from a memory; False where it cannot be read."""
        ...


class PoolCounts(msgspec.Struct):
    """A pool's replicas by how far they are, as intents, launcher and replicas together say."""

    ready: list[Intent]
    starting: list[tuple[Intent, LaunchStep]]
    stopping: list[Intent]


def counts_of(intents: Sequence[Intent], facts: PoolFacts) -> PoolCounts:
    """Sort a pool's intents. One that will be taken away counts as gone: the decision of now replaces it."""
    counts = PoolCounts([], [], [])
    for intent in intents:
        step = step_of(intent, facts)
        seen = facts.observed.get(intent.id)
        doomed = seen is not None and seen.preempted_at is not None
        if intent.state != "run" or step is LaunchStep.STOPPING or doomed:
            counts.stopping.append(intent)
        elif step is LaunchStep.READY:
            counts.ready.append(intent)
        else:
            counts.starting.append((intent, step))
    return counts


class ModelController:
    """One model in one controller process; `decide` and `plan` are called about once a second."""

    def __init__(self, model: ScaledModel, scaler: RememberingScaler, new_id: Callable[[str], str]) -> None:
        """`new_id` gives an id of a pool's replica that is unique for ever."""
        self.model = model
        self.scaler = scaler
        self._new_id = new_id
        self.rates = StoredRates(model.name)
        #: By pool, fixed ones included: what is known of these outlives nothing, as workers know it anew at once.
        self.learned: dict[str, Learned] = {pool.name: Learned() for pool in model.scaling.pools}
        #: What is ready in the pools that nothing scales.
        self.fixed: Mapping[str, PoolSnapshot] = {}
        self.override = NO_OVERRIDE
        self.sizes = NO_SIZES
        self.holds = NO_HOLDS
        self.spot_prices: Mapping[str, SpotPrice] = {}
        self.demand: Demand | None = None
        self.forecast: Forecast | None = None
        #: The last safe one; None: nothing was decided yet.
        self.decision: Decision | None = None
        #: Its pools without what shapes add.
        self._sized: Mapping[str, PoolDecision] = {}
        self.decisions: deque[DecisionRecord] = deque(maxlen=MOST_DECISIONS)
        #: Decisions by what they changed.
        self.decided = {"up": 0, "down": 0, "same": 0}
        self.counts: dict[str, PoolCounts] = {}
        self.knowledge: dict[str, PoolKnowledge] = {}
        self.forget_pools()

    def succeed(self, last: "ModelController") -> None:
        """Take over what another one of the same model and pools that scale, with other settings, knows."""
        if not self.scaler.restore(last.scaler.memory()):
            log.warning("what was remembered of %s cannot be read: its scaling begins anew", self.model.name)
        self.rates, self.knowledge = last.rates, last.knowledge
        # Of its fixed pools some may be new.
        self.learned |= {name: known for name, known in last.learned.items() if name in self.learned}
        self.decision, self.decisions, self.decided = last.decision, last.decisions, last.decided
        self._sized = last._sized

    def forget_pools(self) -> None:
        """Forget what is remembered of single replicas, as when another controller has acted meanwhile."""
        self.pools = {pool.name: self._reconciler(pool) for pool in self.model.pools}

    def _reconciler(self, pool: ScaledPool) -> PoolReconciler:
        return PoolReconciler(pool, lambda: self._new_id(pool.name))

    def observe(
        self,
        reports: Sequence[ModelReport],
        override: Override | None,
        spot_prices: Mapping[str, SpotPrice],
        sizes: VersionSizes | None = None,
        holds: ShapeHolds | None = None,
    ) -> None:
        """Take what the workers, operators, the source of spot prices (by pool), rollouts and shapes say now."""
        self.override = override or NO_OVERRIDE
        self.sizes = sizes or NO_SIZES
        self.holds = holds or NO_HOLDS
        self.spot_prices = spot_prices
        self.demand = merged_demand(reports)
        for pool in self.model.scaling.pools:
            known = self.knowledge[pool.name] = pool_knowledge(reports, pool.name)
            self.learned[pool.name] = with_knowledge(self.learned[pool.name], known, pool.shape.gpus)

    def decide(
        self,
        now: float,
        intents: Mapping[str, Sequence[Intent]],
        facts: Mapping[str, PoolFacts],
        unavailable: Mapping[str, str],
        fixed: Mapping[str, PoolSnapshot],
    ) -> DecisionRecord | None:
        """Decide on a snapshot of now, and return the decision's record if it is to be kept.

        All are by pool; `unavailable` says what keeps a launcher from acting, `fixed` what is ready in pools without
        one. Where the workers say nothing, or a decision is nonsense, the last one holds.
        """
        self.fixed = {name: self._as_shaped(name, seen) for name, seen in fixed.items()}
        self.counts = {pool.name: counts_of(intents[pool.name], facts[pool.name]) for pool in self.model.pools}
        self.forecast = usable(self.rates.forecast, now)
        decision: Decision | None = None
        warning = ""
        if self.demand is None:
            warning = "no worker reports what clients want: the last decision holds"
        else:
            snapshot = self._snapshot(now, self.demand, facts, unavailable)
            try:
                decision = self._safe(self.scaler.decide(snapshot), self.demand)
            except Exception as error:
                log.exception("deciding on %s", self.model.name)
                warning = f"no decision could be made ({type(error).__name__}: {error}): the last one holds"
        if decision is None:
            decision = self._held(now, warning or "the decision was unsafe: the last one holds")
        if self.rates.warning:
            decision = msgspec.structs.replace(decision, warnings=[*decision.warnings, self.rates.warning])
        decision = self._with_holds(decision)
        before, self.decision = self.decision, decision
        self.decided[_change(before, decision)] += 1
        return self._record(before, decision)

    def spot_price(self, pool: ScaledPool) -> float | None:
        """What a preemptible replica and hour costs: as told lately, else as configured; None: not known."""
        told = self.spot_prices.get(pool.name)
        return pool.scaling.spot_price if told is None else told.price_per_hour

    @property
    def warnings(self) -> list[str]:
        """Sentences for operators on its replicas."""
        return [warning for pool in self.pools.values() if (warning := pool.unwell.warning)]

    def plan(self, pool: ScaledPool, intents: Sequence[Intent], facts: PoolFacts) -> Plan:
        """Return what is to be done for a pool to come to what was decided."""
        decided = None if self.decision is None else self.decision.pools.get(pool.name)
        acts = self.model.mode == "act" and not self.override.paused and decided is not None
        wanted = Wanted(decided.wanted, decided.spot) if acts and decided is not None else None
        reconciler = self.pools[pool.name]
        warned = bool(reconciler.unwell.warning)
        plan = reconciler.plan(intents, facts, wanted)
        if reconciler.unwell.warning and not warned:
            log.warning("model %s: %s", self.model.name, reconciler.unwell.warning)
        if reconciler.startups:
            self.learned[pool.name] = with_startups(self.learned[pool.name], reconciler.startups)
            reconciler.startups = []
        if reconciler.spot_seconds or reconciler.interruptions:
            hours = reconciler.spot_seconds / 3600.0
            self.learned[pool.name] = with_spot(self.learned[pool.name], hours, reconciler.interruptions)
            reconciler.spot_seconds, reconciler.interruptions = 0.0, 0
        return plan

    def _snapshot(
        self, now: float, demand: Demand, facts: Mapping[str, PoolFacts], unavailable: Mapping[str, str]
    ) -> Snapshot:
        pools = {
            pool.name: self._pool_snapshot(pool, now, facts[pool.name], unavailable[pool.name])
            for pool in self.model.pools
        }
        pools |= {name: self._with_knowledge(name, seen) for name, seen in self.fixed.items()}
        return Snapshot(
            now=now,
            demand=demand,
            pools=pools,
            forecast=self.forecast,
            pinned=self.override.pinned,
            spot_price={name: told.price_per_hour for name, told in self.spot_prices.items()},
            interruptions_per_hour=self._interruptions(),
        )

    def _interruptions(self) -> dict[str, float]:
        """How often spot replicas are taken away, by pool: as told, else as seen."""
        seen = {name: learned.interruptions_per_hour for name, learned in self.learned.items()}
        told = {name: price.interruptions_per_hour for name, price in self.spot_prices.items()}
        return {name: rate for name, rate in seen.items() if rate is not None} | told

    def _pool_snapshot(self, pool: ScaledPool, now: float, facts: PoolFacts, unavailable: str) -> PoolSnapshot:
        counts, learned = self.counts[pool.name], self.learned[pool.name]
        used = [use for intent in counts.ready if (use := facts.uses.get(intent.address)) is not None]
        running = sum(use.running for use in used)
        seen = PoolSnapshot(
            ready=len(counts.ready),
            starting=[max(now - intent.made, 0.0) for intent, _ in counts.starting],
            stopping=len(counts.stopping),
            spot_ready=sum(intent.spot for intent in counts.ready),
            spot_starting=sum(intent.spot for intent, _ in counts.starting),
            running=running,
            waiting=sum(use.waiting for use in used),
            kv_used=sum(use.kv_used for use in used) / len(used) if used else 0.0,
            startup_seconds=learned.startup_seconds,
            unavailable=unavailable,
        )
        return self._with_knowledge(pool.name, self._as_shaped(pool.name, seen))

    def _as_shaped(self, pool: str, seen: PoolSnapshot) -> PoolSnapshot:
        """Count wide replicas as what they serve."""
        lost = self.holds.lost.get(pool, 0)
        return msgspec.structs.replace(seen, ready=max(seen.ready - lost, 0)) if lost else seen

    def _with_knowledge(self, pool: str, seen: PoolSnapshot) -> PoolSnapshot:
        learned = self.learned[pool]
        return msgspec.structs.replace(
            seen,
            occupancy=self.knowledge[pool].occupancy or 0.0,
            kv_tokens=learned.kv_tokens,
            max_sequences=learned.max_sequences,
            max_step_tokens=learned.max_step_tokens,
            step_times=StepModel.of(learned.steps) if learned.steps is not None else None,
        )

    def _safe(self, decision: Decision, demand: Demand) -> Decision | None:
        """Return the decision within its bounds; None where it is not to be followed."""
        pools = {}
        for pool in self.model.pools:
            decided = decision.pools.get(pool.name)
            if decided is None:
                return None
            bounds = pool.scaling
            least = 0 if pool.name in self.override.pinned else bounds.min
            wanted = min(max(decided.wanted, least), bounds.max)
            spot = min(max(decided.spot, 0), bounds.spot_max, wanted)
            pools[pool.name] = msgspec.structs.replace(decided, wanted=wanted, spot=spot)
        pools = self._with_versions(pools)
        pinned = any(pool.name in self.override.pinned for pool in self.model.pools)
        nothing = not any(pool.wanted for pool in pools.values()) and not any(one.ready for one in self.fixed.values())
        if not pinned and nothing and (demand.waiting or demand.in_flight):
            # Whatever it was made from: a fleet with work does not go to zero.
            return None
        return msgspec.structs.replace(decision, pools=pools)

    def _with_versions(self, pools: Mapping[str, PoolDecision]) -> dict[str, PoolDecision]:
        most = {pool.name: pool.scaling.max for pool in self.model.pools}
        return with_sizes(pools, self.sizes, most, self.override.pinned)

    def _with_holds(self, decision: Decision) -> Decision:
        self._sized = decision.pools
        most = {pool.name: pool.scaling.max for pool in self.model.pools}
        return msgspec.structs.replace(
            decision, pools=with_holds(decision.pools, self.holds, most, self.override.pinned)
        )

    def _held(self, now: float, warning: str) -> Decision:
        """Return the last decision once more, or what runs where there was none."""
        last = self.decision
        if last is not None:
            return msgspec.structs.replace(last, at=now, pools=self._with_versions(self._sized), warnings=[warning])
        pools = {}
        for pool in self.model.pools:
            counts = self.counts[pool.name]
            running = [*counts.ready, *(intent for intent, _ in counts.starting)]
            wanted = min(max(len(running), pool.scaling.min), pool.scaling.max)
            spot = min(sum(intent.spot for intent in running), pool.scaling.spot_max, wanted)
            pools[pool.name] = PoolDecision(wanted=wanted, spot=spot)
        reason = "what runs stays, and each pool has its min, until the workers say what clients want"
        return Decision(
            at=now, pools=self._with_versions(pools), cost=None, inputs={}, reasons=[reason], warnings=[warning]
        )

    def _record(self, before: Decision | None, decision: Decision) -> DecisionRecord | None:
        last = self.decisions[-1] if self.decisions else None
        alike = before is not None and _what(before) == _what(decision)
        if last is not None and alike and 0.0 <= decision.at - last.at < RECORD_SECONDS:
            return None
        record = DecisionRecord(
            at=decision.at,
            model=self.model.name,
            mode=self.model.mode,
            pools={
                name: PoolDecided(wanted=pool.wanted, spot=pool.spot, needed=pool.needed, reason=pool.reason)
                for name, pool in decision.pools.items()
            },
            cost=decision.cost,
            inputs=decision.inputs,
            reasons=decision.reasons,
            warnings=decision.warnings,
        )
        self.decisions.append(record)
        return record


def _change(before: Decision | None, decision: Decision) -> str:
    """Say what a decision changes about the number of replicas."""
    more = 0 if before is None else _total(decision) - _total(before)
    return "same" if not more else "up" if more > 0 else "down"


def _total(decision: Decision) -> int:
    return sum(pool.wanted for pool in decision.pools.values())


def _what(decision: Decision) -> object:
    """What two decisions that are alike have in common: figures in their words may differ."""
    pools = [(name, pool.wanted, pool.spot) for name, pool in sorted(decision.pools.items())]
    return pools, [_FIGURES.sub("", words) for words in (*decision.reasons[:1], *decision.warnings)]
