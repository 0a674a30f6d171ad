"""The controller: it reads what there is, decides, writes down what shall be, and has launchers bring it about.

One controller acts at a time (`lease.py`), and all that it does can be repeated: another one, or this one after an
outage, finds every replica in the store before it finds it running. While the store is away nothing is started or
stopped.
"""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from gateway.scaling.demand.demand_reports import HURRY
from gateway.scaling.facts.fixed_pools import fixed_pools
from gateway.scaling.facts.pool_facts import PoolFacts, announced, uses
from gateway.scaling.facts.unwell import Reached
from gateway.scaling.facts.workers_heard import WorkersHeard
from gateway.scaling.inputs import Inputs, read_inputs
from gateway.scaling.intents import INTENTS, SET_ASIDE, Intent, StoredIntents, read_intents, set_aside
from gateway.scaling.launcher_calls import CALL_SECONDS, LauncherCalls
from gateway.scaling.learned_pools import WRITE_SECONDS, Learned, field_of, is_news, read_learned, write_of
from gateway.scaling.leasing.lease import Holder, Lease, LeaseLost, Write
from gateway.scaling.leasing.leased_rounds import LeasedRounds
from gateway.scaling.leasing.steady_clock import FollowedJump, SteadyClock
from gateway.scaling.model_controller import ModelController, RememberingScaler
from gateway.scaling.reconcile import Plan, PoolReconciler, by_pool
from gateway.scaling.settings import ScaledModel, ScaledPool
from gateway.scaling.spot_prices import SpotPriceSource
from gateway.scaling.status import PREFIX, STATUS, DecisionRecord, read_status
from gateway.scaling.status_of import StepTimes, status_of, steps_of
from gateway.scaling.stored_decisions import DECISIONS, MOST_STORED, read_decisions
from gateway.scaling.stored_rates import RATES
from gateway.tenancy.tenants.transactions import Storage
from protos.errors import StoreUnavailable
from replicas.controller.scaling_settings import ModelScaling
from replicas.launchers.launcher import LaunchedReplica, Launcher

log = logging.getLogger(__name__)

#: Seconds between two writes of what scalers remember.
MEMORY_SECONDS: Final = 10.0
#: A hash: model -> what its scaler remembers.
_MEMORY: Final = f"{PREFIX}memory"
#: Replicas that a warning names at most.
_MOST_NAMED: Final = 8
_NOT_IN_IDS: Final = re.compile(r"[^a-z0-9]+")


def new_id(pool: str) -> str:
    """Return an id that is unique for ever, and tells the pool."""
    return f"{_NOT_IN_IDS.sub('-', pool.lower()).strip('-')[:32] or 'replica'}-{secrets.token_hex(8)}"


class Controller(LeasedRounds):
    """One controller process; `run` it once."""

    def __init__(
        self,
        storage: Storage,
        models: Sequence[ScaledModel],
        launchers: Mapping[str, Launcher],
        scaler_of: Callable[[ModelScaling], RememberingScaler],
        name: str,
        clock: Callable[[], float] = time.monotonic,
        id_of: Callable[[str], str] = new_id,
        prices: SpotPriceSource | None = None,
        call_seconds: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """`launchers` are by the names that pools use; `name` is this process's, and no other one's.

        `call_seconds` bound the calls to launchers that take longer than others, by name.
        """
        super().__init__(Lease(storage, name, clock), "controller")
        self._prices = prices
        self._scaler_of, self._id_of = scaler_of, id_of
        self._storage = storage
        self.models = [ModelController(model, scaler_of(model.scaling), id_of) for model in models]
        self._calls = {
            launcher: LauncherCalls(launcher, made, clock, call_seconds.get(launcher, CALL_SECONDS))
            for launcher, made in launchers.items()
        }
        self._monotonic = clock
        self._clock = SteadyClock(clock)
        self._jump = FollowedJump()
        self._workers = WorkersHeard()
        self._reached = Reached()
        #: What each launcher showed last, by model and pool.
        self._observed: dict[str, Mapping[tuple[str, str], dict[str, LaunchedReplica]]] = {}
        #: The last starts that each launcher was asked for.
        self._started: dict[str, Sequence[Intent]] = {}
        self._times = StepTimes()
        self._token: int | None = None
        self._learned: dict[str, Learned] = {}
        self._learned_at = 0.0
        self._remembered_at = 0.0

    def use(self, models: Sequence[ScaledModel]) -> None:
        """Size the same models and pools by other settings, from the next round on."""
        lasts = {one.model.name: one for one in self.models}
        for place, model in enumerate(models):
            one = lasts[model.name]
            if one.model != model:
                one = ModelController(model, self._scaler_of(model.scaling), self._id_of)
                one.succeed(lasts[model.name])
            self.models[place] = one

    async def aclose(self) -> None:
        """Abandon calls and fits that are under way."""
        await asyncio.gather(*(calls.aclose() for calls in self._calls.values()))
        await asyncio.gather(*(one.rates.aclose() for one in self.models))

    def _hurry_channel(self) -> tuple[str, str]:
        return HURRY, "requests at zero are noticed up to a second later"

    def _beside(self) -> Sequence[Coroutine[Any, Any, None]]:
        return () if self._prices is None else (self._prices.run(),)

    async def _act(self, holder: Holder) -> None:
        if holder.token != self._token:
            await self._take_over(holder)
        inputs = await read_inputs(self._storage)
        # What was held of a model whose shapes nobody looks after any more nobody would ever let go.
        reshaped = {one.model.name for one in self.models if one.model.reshapes}
        inputs.holds = {name: held for name, held in inputs.holds.items() if name in reshaped}
        self._jump.add(self._clock.heard(inputs.now))
        await self._act_on(holder, inputs)

    async def stop_all(self, launcher: str, grace_seconds: float, patience_seconds: float) -> bool:
        """Stop whatever a launcher shows, as when this machine's gateway ends; whether it has ended in time."""
        calls = self._calls[launcher]
        until = asyncio.get_running_loop().time() + patience_seconds
        told: set[str] = set()
        while (left := until - asyncio.get_running_loop().time()) > 0:
            await calls.finished(left)
            calls.look()
            await calls.finished(left)
            seen = await calls.answered()
            if seen is not None and not seen and not calls.unknown:
                return True
            # Also those whose start was under way, and all again where the launcher could not do it.
            ids = {replica.id for replica in seen or ()}
            if ids - told or (ids and calls.stop_failed):
                calls.act((), dict.fromkeys(sorted(ids), grace_seconds), lambda: True)
                told |= ids
            await asyncio.sleep(0.1)
        log.warning(
            "the %s launcher still shows replicas %.0f s after they were told to end", launcher, patience_seconds
        )
        return False

    async def forget_all(self, launcher: str) -> None:
        """Remove the intents of a launcher's pools, once nothing of them runs: the next start owes them nothing."""
        pools = {pool.place for pool in self._pools() if pool.launcher == launcher}
        try:
            await self.lease.renew()
            intents = [intent for intent in await read_intents(self._storage) if intent.place in pools]
            await self.lease.write([Write("put", INTENTS, intent.id, b"") for intent in intents])
        except (StoreUnavailable, LeaseLost):
            log.warning("the records of the replicas that have ended stay in the store until a controller looks")

    # ---- a round

    async def _take_over(self, holder: Holder) -> None:
        """Read what the last controller knew. What this one remembers of single replicas may be old."""
        learned, decisions = await read_learned(self._storage), await read_decisions(self._storage)
        memories, rates = await self._storage.hgetall(_MEMORY), await self._storage.hgetall(RATES)
        for calls in self._calls.values():
            calls.forget()
        for one in self.models:
            if (raw := rates.get(one.model.name.encode())) is not None:
                one.rates.restore(raw)
            one.forget_pools()
            memory = memories.get(one.model.name.encode())
            if memory is not None and not one.scaler.restore(memory):
                log.warning("what was remembered of %s cannot be read: its scaling begins anew", one.model.name)
            for pool in one.model.pools:
                one.learned[pool.name] = learned.get(field_of(pool), one.learned[pool.name])
            if not one.decisions:
                one.decisions.extend(record for record in decisions if record.model == one.model.name)
        self._learned = learned
        _, status = await read_status(self._storage)
        if self._token is not None and status is not None and status.controller.token != self._token:
            # Another one has acted since, and has followed the jumps of the store's clock.
            self._clock, self._jump = SteadyClock(self._monotonic), FollowedJump()
            self._learned_at = self._remembered_at = 0.0
        self._token = holder.token
        log.info("controller with token %d", holder.token)

    async def _act_on(self, holder: Holder, inputs: Inputs) -> None:
        for calls in self._calls.values():
            calls.look()
        answers = await asyncio.gather(*(calls.answered() for calls in self._calls.values()))
        fresh = set()
        for (name, calls), seen in zip(self._calls.items(), answers, strict=True):
            if seen is not None:
                last = self._observed.get(name, {})
                self._observed[name] = {**by_pool(seen), **{place: last.get(place, {}) for place in calls.unknown}}
                fresh.add(name)
        now = self._clock.now()
        writes = self._follow_jump(inputs.stored)
        self._note_failures(now)
        facts = self._facts(inputs, now)
        intents: dict[tuple[str, str], list[Intent]] = {place: [] for place in facts}
        for intent in inputs.stored.intents:
            intents.setdefault(intent.place, []).append(intent)
        writes += self._decide(inputs, intents, facts, now)
        plans = self._plans(intents, facts, fresh)
        for _, plan in plans:
            self._jump.note(plan.puts.values())
            writes += [Write("put", INTENTS, id_, msgspec.json.encode(put)) for id_, put in plan.puts.items()]
            writes += [Write("put", INTENTS, id_, b"") for id_ in sorted(plan.drops)]
        writes += set_aside(inputs.stored.unreadable)
        self._times.note(steps_of(inputs.stored.intents, facts), now)
        told = (self._clock.warning, self._prices.warning if self._prices is not None else "", self._astray(facts))
        warnings = [warning for warning in (*told, *inputs.overrides.problems) if warning]
        status = status_of(now, holder, self.models, facts, self._calls, self._times, warnings)
        # Others tell its age by the store's clock, with its jumps.
        status = msgspec.structs.replace(status, at=self._clock.store_now())
        writes.append(Write("set", STATUS, "", msgspec.json.encode(status)))
        await self.lease.write(writes)
        self._jump.done()
        for id_ in inputs.stored.unreadable:
            log.warning(
                "the record of replica %.64s cannot be read (%s): it is set aside in %s, and the replica is taken over "
                "if its launcher shows it",
                *(id_.decode("utf-8", "backslashreplace"), INTENTS, SET_ASIDE),
            )
        for place, pool in self._reconcilers.items():
            for failure in pool.failures:
                if failure.at == now:
                    log.warning("replica %s of %s: %s", failure.intent.id, place[0], failure.problem)
        self._call(plans, fresh, holder)

    def _follow_jump(self, stored: StoredIntents) -> list[Write]:
        """Have all intents be as old as before where a jump of the clock is followed; returns what is to be written."""
        if not self._jump.seconds:
            return []
        log.warning("the store's clock has stayed %+.0f s away, which is followed now", self._jump.seconds)
        stored.intents = self._jump.moved(stored.intents)
        self._jump.note(stored.intents)
        for one in self.models:
            one.forget_pools()
        self._learned_at = self._remembered_at = 0.0
        return [Write("put", INTENTS, intent.id, msgspec.json.encode(intent)) for intent in stored.intents]

    def _note_failures(self, now: float) -> None:
        """Tell the pools which of their last starts have failed; those are named, or it was all of them."""
        for name, calls in self._calls.items():
            if problem := calls.start_failure():
                started = self._started.get(name, ())
                places = {intent.place for intent in [one for one in started if one.id in problem] or started}
                for place in places & self._reconcilers.keys():
                    self._reconcilers[place].start_failed(problem, now)

    def _facts(self, inputs: Inputs, now: float) -> dict[tuple[str, str], PoolFacts]:
        used = uses(inputs.fleets)
        doubtful = self._reached.mostly_unwell(used, now)
        all_heard = self._workers.look(len(inputs.fleets), now)
        found = {}
        for pool in self._pools():
            observed = self._observed.get(pool.launcher, {}).get(pool.place, {})
            found[pool.place] = PoolFacts(
                now=now,
                observed=observed,
                announced=announced(
                    observed.values(),
                    [one for one in inputs.registrations if (one.model, one.pool) == pool.place],
                ),
                uses={address: use for (model, address), use in used.items() if model == pool.model},
                reported=bool(inputs.fleets),
                all_heard=all_heard,
                mostly_unwell=doubtful,
                registers=pool.registers,
                held=frozenset(holds.addresses) if (holds := inputs.holds.get(pool.model)) is not None else (),
            )
        return found

    def _astray(self, facts: Mapping[tuple[str, str], PoolFacts]) -> str:
        """Say which replicas are of no pool that scales, as after a change of the configuration; empty: none."""
        ids = sorted(id_ for pools in self._observed.values() for place in pools.keys() - facts for id_ in pools[place])
        if not ids:
            return ""
        return f"of no pool that scales, and not looked after: {', '.join(ids[:_MOST_NAMED])} ({len(ids)} in all)"

    def _decide(
        self,
        inputs: Inputs,
        intents: Mapping[tuple[str, str], Sequence[Intent]],
        facts: Mapping[tuple[str, str], PoolFacts],
        now: float,
    ) -> list[Write]:
        writes: list[Write] = []
        for one in self.models:
            name = one.model.name
            prices = {} if self._prices is None else self._prices.of(name)
            reports = [report[name] for report in inputs.demand if name in report]
            one.observe(
                reports, inputs.overrides.found.get(name), prices, inputs.sizes.get(name), inputs.holds.get(name)
            )
            if one.demand is not None:
                writes += one.rates.add(now, one.demand.requests_per_second)
            record = one.decide(
                now,
                {pool.name: intents[pool.place] for pool in one.model.pools},
                {pool.name: facts[pool.place] for pool in one.model.pools},
                {pool.name: self._unavailable(one, pool, now) for pool in one.model.pools},
                fixed_pools(inputs.fleets, name, one.model.fixed),
            )
            if record is not None:
                writes.append(_write_of(record))
        due = now - self._learned_at >= WRITE_SECONDS
        self._learned_at = now if due else self._learned_at
        writes += self._learned_writes(due)
        if now - self._remembered_at >= MEMORY_SECONDS:
            self._remembered_at = now
            writes += [Write("put", _MEMORY, one.model.name, one.scaler.memory()) for one in self.models]
        return writes

    def _unavailable(self, one: ModelController, pool: ScaledPool, now: float) -> str:
        return self._calls[pool.launcher].unreachable(pool.place) or one.pools[pool.name].unavailable(now)

    def _learned_writes(self, due: bool) -> list[Write]:
        writes = []
        for one in self.models:
            for pool in one.model.pools:
                learned = one.learned[pool.name]
                last = self._learned.get(field_of(pool), Learned())
                if is_news(learned, last) or (due and learned != last):
                    self._learned[field_of(pool)] = learned
                    writes.append(write_of(pool, learned))
        return writes

    def _plans(
        self,
        intents: Mapping[tuple[str, str], Sequence[Intent]],
        facts: Mapping[tuple[str, str], PoolFacts],
        fresh: set[str],
    ) -> list[tuple[ScaledPool, Plan]]:
        """Return what is to be done for the pools that their launchers have spoken of."""
        return [
            (pool, one.plan(pool, intents[pool.place], facts[pool.place]))
            for one in self.models
            for pool in one.model.pools
            if pool.launcher in fresh and pool.place not in self._calls[pool.launcher].unknown
        ]

    def _call(self, plans: Sequence[tuple[ScaledPool, Plan]], fresh: set[str], holder: Holder) -> None:
        """Have the launchers do it, now that it is written down."""

        def may_act() -> bool:
            held = self.lease.held
            return held is not None and held.token == holder.token

        for name, calls in self._calls.items():
            mine = [plan for pool, plan in plans if pool.launcher == name]
            starts = [intent for plan in mine for intent in plan.starts]
            stops = {id_: grace for plan in mine for id_, grace in plan.stops.items()}
            if name in fresh:
                self._started[name] = starts
                calls.act(starts, stops, may_act)

    @property
    def _reconcilers(self) -> dict[tuple[str, str], PoolReconciler]:
        return {pool.place: one.pools[pool.name] for one in self.models for pool in one.model.pools}

    def _pools(self) -> list[ScaledPool]:
        return [pool for one in self.models for pool in one.model.pools]


def _write_of(record: DecisionRecord) -> Write:
    return Write("add", DECISIONS, str(MOST_STORED), msgspec.json.encode(record))
