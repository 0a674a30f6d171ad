"""The counts that a load asks for: Algorithm 4's maximum of what is felt and what is foreseen, then the cost gate."""

from collections.abc import Mapping, Sequence
from math import ceil

import msgspec

from protos.types import Role
from replicas.controller.cost_gate import gated
from replicas.controller.fleet_capacity import FleetCapacity
from replicas.controller.lateness import lateness
from replicas.controller.memory import Memory, NeededRate
from replicas.controller.mix import PoolRange, cheapest_mix, deciding_prices
from replicas.controller.needed_rate import NeededNow, backlog_now, expected_backlog, needed_rate
from replicas.controller.observe import SETTLE
from replicas.controller.outcomes import BUSY_MISS, learned_factor, learned_headroom, with_signals
from replicas.controller.plan import Plan, counted, least_serving, with_less, with_more
from replicas.controller.pool_capacities import pool_capacities
from replicas.controller.pool_state import PoolState
from replicas.controller.scaling_settings import ModelScaling
from replicas.controller.signals import WEIGHTS, pool_signals, pressure
from replicas.controller.snapshot import Snapshot
from replicas.controller.stability import down_window, kept_need, with_need

#: How much more than was served in time is asked of a GPU when replicas go; the spare capacity is tried in such steps.
BEYOND_PROVEN, _SPARE_FACTOR, _SPARE_STEPS = 1.25, 1.05, 150
#: Where less than this share of the capacity that is ready is needed, more of it makes nobody's answer faster.
IDLE = 0.25
#: Pressure beyond which replicas are added although the capacity says that there are enough.
PRESSED = 1.1


class Sizing(msgspec.Struct, frozen=True, kw_only=True):
    """Counts by pool, those that the load alone needs, the memory with that need, and what there is to say of it.

    `measured` are those that serve what comes now and what waits, whatever else is expected: what was measured needs no
    bound of change.
    """

    counts: Mapping[str, int]
    needed: Mapping[str, int]
    measured: Mapping[str, int]
    memory: Memory
    inputs: Mapping[str, float]
    reasons: Sequence[str]
    warnings: Sequence[str] = ()


def sized(
    scaling: ModelScaling,
    memory: Memory,
    snapshot: Snapshot,
    states: Mapping[str, PoolState],
    pools: Sequence[PoolRange],
) -> Sizing:
    """Return the counts that a model with any demand shall have; `memory` has the snapshot already."""
    replicas = pool_capacities(states, memory.workload, scaling.slo, memory)
    if not replicas:
        return _felt_alone(scaling, memory, snapshot, states, pools)
    now, present, least = snapshot.now, counted(states), least_serving(pools)
    capacity = FleetCapacity(scaling, replicas, memory.factor)
    served = capacity.rate({name: state.ready for name, state in states.items()})
    startup = max(state.startup for state in states.values())
    backlog = backlog_now(scaling, snapshot, states, capacity, served)
    settle = SETTLE + max(replica.answer_seconds for replica in replicas.values())
    memory = msgspec.structs.replace(
        _judged(scaling, memory, memory.at, snapshot, served, backlog), settle_seconds=settle
    )
    need = needed_rate(
        memory.history,
        memory.sample,
        outage=memory.outage,
        backlog=expected_backlog(states, capacity, memory.sample.mean, backlog, startup),
        startup=startup,
        headroom=memory.headroom,
        forecast=snapshot.forecast,
    )
    lasting = NeededRate(now, need.lasting_rate)
    memory = msgspec.structs.replace(memory, needs=with_need(memory.needs, lasting, scaling.down_seconds))
    highest = max(old.rate for old in memory.needs)
    window = down_window(scaling, startup, lasting.rate, highest, need.lasting)
    kept = kept_need(memory, now, window)
    reasons, warnings = [need.reason], list(need.warnings)
    felt = _felt(scaling, memory, snapshot, states, served)
    memory = felt.memory
    counts: Mapping[str, int] = present
    more = with_more(states, pools, capacity, need.rate)
    if more is not None:
        counts = more.counts
        reasons.append(more.reason)
        if more.short:
            warnings.append(f"{need.rate:.2f} requests/s are needed. {more.reason}")
    elif felt.plan is not None and _quiet(memory, now):
        counts = felt.plan.counts
        reasons.insert(0, felt.plan.reason)
    elif _late(scaling, snapshot) and need.rate > IDLE * served:
        reasons.append("Clients wait too long, so nothing is given back.")
    elif backlog > 0:
        reasons.append(f"{backlog:.0f} requests wait beyond what runs, so nothing is given back.")
    elif kept is not None:
        # What the forecast expects of the next minutes is kept, too; what a backlog had asked for goes with it.
        rate = max(kept, need.rate, need.lasting or 0.0)
        less = _less(states, pools, capacity, rate, memory.served, change_mix=_steady(scaling, memory, now))
        if less is not None:
            counts = less.counts
            reasons.append(f"At most {rate:.2f} requests/s were needed in the last {window:.0f} s. {less.reason}")
    bought = gated(scaling, pools, capacity, need.rate, counts)
    if bought is not None:
        counts = bought.counts
        reasons.insert(0, bought.reason)
        warnings.append(bought.reason)
    measured = with_more(states, pools, capacity, need.steady + need.backlog)
    needed = cheapest_mix(pools, capacity, need.rate) or {pool.name: pool.most for pool in pools}
    inputs = {
        **_need_inputs(need, kept),
        **felt.inputs,
        "ready_rate": served,
        "counted_rate": capacity.rate(present),
        "capacity_factor": memory.factor,
        "headroom": memory.headroom,
        "startup_seconds": startup,
        "down_window": window,
        **_replica_inputs(capacity),
    }
    reasons += _replica_reasons(capacity)
    return Sizing(
        counts=_at_least(counts, least),
        needed=_at_least(needed, least),
        measured=present if measured is None else measured.counts,
        memory=memory,
        inputs=inputs,
        reasons=reasons,
        warnings=warnings,
    )


class _Felt(msgspec.Struct, frozen=True):
    """What the signals are, the counts that they ask for where they press, and the memory with what was learned."""

    inputs: Mapping[str, float]
    plan: Plan | None
    memory: Memory


def _felt(
    scaling: ModelScaling, memory: Memory, snapshot: Snapshot, states: Mapping[str, PoolState], served: float
) -> _Felt:
    """Return `k * s_react` of Algorithm 4: more of each pool in proportion to what is ready, where clients feel it.

    While what clients see is a shortage that is known, or has just ended, nothing follows from it.
    """
    found = {
        name: pool_signals(
            state.settings.role, state.snapshot, snapshot.demand, scaling.slo, memory.sample.rate, served
        )
        for name, state in states.items()
        if state.ready
    }
    horizons = {name: max(state.startup, SETTLE) for name, state in states.items()}
    pending, weights = with_signals(memory.pending, memory.weights, snapshot.now, found, horizons)
    memory = msgspec.structs.replace(memory, pending=pending, weights=weights)
    inputs: dict[str, float] = {}
    grown = counted(states)
    pressed = 0.0
    lacking: dict[Role, int] = {}
    for name, signals in found.items():
        known = weights.get(name, WEIGHTS)
        pressed_here = pressure(signals, known)
        inputs[f"pressure_{name}"] = pressed_here
        inputs.update({f"signal_{signal}_{name}": value for signal, value in signals.named().items()})
        inputs.update({f"weight_{signal}_{name}": known[signal] for signal in WEIGHTS})
        # Where less than half of what is ready has work, more of it is no help.
        if pressed_here > PRESSED and (signals.tokens > BUSY_MISS or not served):
            pressed, state = max(pressed, pressed_here), states[name]
            more = ceil(state.ready * pressed_here)
            grown[name] = min(more, max(state.most, grown[name]))
            if state.settings.fixed:
                role = state.settings.role
                lacking[role] = lacking.get(role, 0) + (more - state.ready) * state.settings.shape.gpus
    for role, gpus in lacking.items():
        _grow_beside(grown, states, role, gpus)
    if not pressed or grown == counted(states) or any(state.coming for state in states.values()):
        return _Felt(inputs, None, memory)
    return _Felt(inputs, Plan(counts=grown, reason=f"The pressure is {pressed:.2f}."), memory)


def _grow_beside(grown: dict[str, int], states: Mapping[str, PoolState], role: Role, gpus: int) -> None:
    """Have `grown` get the GPUs that fixed pools of a role lack, in a pool of that role that can grow."""
    prices = deciding_prices([state.settings for state in states.values()])
    growing = [
        name
        for name, state in states.items()
        if not state.settings.fixed and state.settings.role is role and state.most > grown[name]
    ]
    if growing:
        name = min(growing, key=lambda name: (prices[name] / states[name].settings.shape.gpus, name))
        more = ceil(gpus / states[name].settings.shape.gpus)
        grown[name] = max(grown[name], min(states[name].ready + more, states[name].most))


def _judged(
    scaling: ModelScaling, memory: Memory, before: float | None, snapshot: Snapshot, served: float, backlog: float
) -> Memory:
    """Return the memory with what follows from how clients are served for headroom and factor."""
    now = snapshot.now
    ratio, seconds = lateness(snapshot.demand, scaling.slo), now - (now if before is None else before)
    short = backlog > 0 or memory.sample.mean > served
    late = _late(scaling, snapshot) if ratio > 0 else short
    factor = memory.factor
    if not short and _quiet(memory, now):
        factor = learned_factor(factor, memory.sample.mean, served, ratio, seconds)
    return msgspec.structs.replace(
        memory,
        short_at=now if short else memory.short_at,
        headroom=learned_headroom(memory.headroom, scaling.slo.in_time, seconds, late=late),
        factor=factor,
    )


def _late(scaling: ModelScaling, snapshot: Snapshot) -> bool:
    """Whether more clients than may be have waited longer than the targets allow."""
    return lateness(snapshot.demand, scaling.slo) > 1


def _quiet(memory: Memory, now: float) -> bool:
    """Whether what clients see is no more of a change or a shortage that is over."""
    changed = now if memory.settled_at is None else memory.settled_at
    return now - max(changed, memory.short_at or changed) >= memory.settle_seconds


def _felt_alone(
    scaling: ModelScaling,
    memory: Memory,
    snapshot: Snapshot,
    states: Mapping[str, PoolState],
    pools: Sequence[PoolRange],
) -> Sizing:
    """Return counts where nothing is known of what replicas serve: what there is, and more where clients feel it."""
    felt = _felt(scaling, memory, snapshot, states, 0.0)
    plan = felt.plan if _quiet(felt.memory, snapshot.now) else None
    counts = counted(states) if plan is None else plan.counts
    reasons = [] if plan is None else [plan.reason]
    if any(counts.values()):
        reasons.append("What a replica serves is not known yet, so nothing is given back.")
    else:
        reasons.append("Nothing runs, and what a replica serves is not known yet: the least that serves is enough.")
    least = least_serving(pools)
    counts = _at_least(counts, least)
    # Of a size that is set it is not known how much of it the load asks for.
    unknown = snapshot.pinned if plan is None else ()
    return Sizing(
        counts=counts,
        needed={name: least[name] if name in unknown else count for name, count in counts.items()},
        measured=least,
        memory=felt.memory,
        inputs=felt.inputs,
        reasons=reasons,
    )


def _less(
    states: Mapping[str, PoolState],
    pools: Sequence[PoolRange],
    capacity: FleetCapacity,
    rate: float,
    served: float,
    *,
    change_mix: bool,
) -> Plan | None:
    """Return the first plan, of those with ever more capacity to spare, that asks not much more of a GPU than was
    proven; None where nothing goes.

    `served` is the highest rate per GPU that was served in time. So what the capacity says too much is found out step
    by step, before clients do.
    """
    for step in range(_SPARE_STEPS):
        found = with_less(states, pools, capacity, rate * _SPARE_FACTOR**step, change_mix=change_mix)
        if found is None or served <= 0:
            return found
        gpus = sum(count * states[name].settings.shape.gpus for name, count in found.counts.items())
        gone = sum(states[name].counted - count for name, count in found.counts.items())
        if gone <= 1 or rate <= BEYOND_PROVEN * served * gpus:
            return found
    return None


def _replica_inputs(capacity: FleetCapacity) -> dict[str, float]:
    inputs = {f"replica_rate_{name}": capacity.most(name) for name in capacity.replicas}
    return inputs | {f"replica_slots_{name}": replica.slots for name, replica in capacity.replicas.items()}


def _replica_reasons(capacity: FleetCapacity) -> list[str]:
    return [
        f"One replica of pool {name} serves {capacity.most(name):.2f} requests/s at most, by {replica.source}, "
        f"bounded by {replica.bound}."
        for name, replica in capacity.replicas.items()
    ]


def _steady(scaling: ModelScaling, memory: Memory, now: float) -> bool:
    """Whether nothing has changed for so long that another mix is worth its starts."""
    changed = max(
        now if memory.settled_at is None else memory.settled_at, memory.wanted[-1].at if memory.wanted else now
    )
    return now - changed >= scaling.down_seconds


def _need_inputs(need: NeededNow, kept: float | None) -> dict[str, float]:
    return {
        "rate": need.steady,
        "growth": need.growth,
        "backlog_rate": need.backlog,
        **({} if need.forecast is None else {"forecast": need.forecast}),
        "needed_rate": need.rate,
        "kept_rate": need.rate if kept is None else kept,
    }


def _at_least(counts: Mapping[str, int], least: Mapping[str, int]) -> dict[str, int]:
    """Return the counts, or the least that serves at all where they serve nothing."""
    if any(counts.values()):
        return dict(counts)
    return {name: max(count, least[name]) for name, count in counts.items()}
