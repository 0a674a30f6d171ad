"""One decision about a model's size: what the load asks for, kept within bounds and reached as fast as it may be."""

from collections.abc import Mapping

import msgspec

from replicas.controller.decision import Decision, PoolDecision
from replicas.controller.memory import Memory
from replicas.controller.mix import deciding_prices
from replicas.controller.observe import observed
from replicas.controller.plan import ranges
from replicas.controller.pool_state import PoolState, pool_states
from replicas.controller.scaling_settings import ModelScaling
from replicas.controller.sizing import Sizing, sized
from replicas.controller.snapshot import Snapshot
from replicas.controller.stability import most_now, with_wanted


def decide(scaling: ModelScaling, memory: Memory, snapshot: Snapshot) -> tuple[Decision, Memory]:
    """Return the decision, and what to remember for the next one."""
    now = snapshot.now
    memory = observed(scaling, memory, snapshot)
    states = pool_states(scaling, snapshot, memory)
    pools = ranges(states, deciding_prices(scaling.pools))
    sizing = _idle(scaling, memory, now) or sized(scaling, memory, snapshot, states, pools)
    memory = sizing.memory
    reasons, warnings = list(sizing.reasons), [*_missing(states), *sizing.warnings]
    counts = dict(sizing.counts)
    for name, state in states.items():
        count = min(max(counts[name], state.settings.min), state.most)
        fastest = most_now(scaling, state.settings, memory.wanted, now, state.counted)
        if count > fastest:
            reasons.append(f"Pool {name} grows to {fastest} for now, as fast as it may.")
        # Replicas that do not come to be ready count as well, for as long as they are there.
        counts[name] = min(min(count, fastest) + state.stuck, max(state.settings.max, state.settings.min))
    for name, count in snapshot.pinned.items():
        if name in states:
            counts[name] = min(max(count, 0), states[name].settings.max)
            reasons.insert(0, f"Pool {name} is set to {counts[name]}.")
            if counts[name] != count:
                warnings.append(f"Pool {name} is set to {count}, and has {states[name].settings.max} at most.")
    decision = Decision(
        at=now,
        pools={
            name: PoolDecision(wanted=counts[name], needed=sizing.needed[name], reason=reasons[0]) for name in states
        },
        cost=_cost(scaling, counts),
        inputs=sizing.inputs,
        reasons=reasons,
        warnings=warnings,
    )
    wanted = with_wanted(memory.wanted, counts, now, scaling.up_seconds)
    return decision, msgspec.structs.replace(memory, wanted=wanted, at=now)


def _idle(scaling: ModelScaling, memory: Memory, now: float) -> Sizing | None:
    """Return nothing at all where the model may go to zero and no request has come for long enough."""
    idle = now - (now if memory.busy_at is None else memory.busy_at)
    if idle < scaling.idle_seconds or any(pool.min for pool in scaling.pools):
        return None
    nothing = {pool.name: 0 for pool in scaling.pools}
    return Sizing(
        counts=nothing,
        needed=nothing,
        memory=memory,
        inputs={"idle_seconds": idle},
        reasons=[f"No request has come for {idle:.0f} s."],
    )


def _missing(states: Mapping[str, PoolState]) -> list[str]:
    """Say what of the pools could not be taken as it should be."""
    problems = []
    for name, state in states.items():
        if not state.seen:
            problems.append(f"Nothing is known of pool {name}, so it stays as it is.")
        if state.stuck:
            problems.append(f"{state.stuck} of pool {name} have been starting for too long, and are not counted on.")
        if state.snapshot.unavailable:
            problems.append(f"Pool {name} cannot grow: {state.snapshot.unavailable}")
    return problems


def _cost(scaling: ModelScaling, counts: Mapping[str, int]) -> float | None:
    """Return dollars an hour; None where a price that counts is unknown."""
    if any(pool.price is None and counts[pool.name] for pool in scaling.pools):
        return None
    return sum(counts[pool.name] * (pool.price or 0.0) for pool in scaling.pools)
