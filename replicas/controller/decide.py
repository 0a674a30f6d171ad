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
from replicas.controller.spot import (
    WARY_SECONDS,
    SpotPlan,
    lost_spot,
    short_since,
    spot_market,
    spot_offer,
    spot_seen,
    spot_stays_away,
    with_spot,
)
from replicas.controller.stability import most_now, with_wanted


def decide(scaling: ModelScaling, memory: Memory, snapshot: Snapshot) -> tuple[Decision, Memory]:
    """Return the decision, and what to remember for the next one."""
    now = snapshot.now
    memory = observed(scaling, memory, snapshot)
    states = pool_states(scaling, snapshot, memory)
    lost_at = _lost_at(memory, states, now)
    wary = {name for name, at in lost_at.items() if 0 <= now - at < WARY_SECONDS}
    offers = {name: spot_offer(state, snapshot, wary=name in wary) for name, state in states.items()}
    spot = {name: offer for name, offer in offers.items() if offer is not None}
    pools = ranges(states, deciding_prices(scaling.pools), spot)
    idle = _idle(scaling, memory, now)
    sizing = idle or sized(scaling, memory, snapshot, states, pools)
    memory = sizing.memory
    reasons, warnings = list(sizing.reasons), [*_missing(states), *sizing.warnings]
    counts, spots = {}, {}
    scaled = {name: state for name, state in states.items() if not state.settings.fixed}
    for name, state in scaled.items():
        count = min(max(sizing.counts[name] if state.seen else state.counted, state.settings.min), state.most)
        fastest = max(
            most_now(scaling, state.settings, memory.wanted, now, state.counted), sizing.measured.get(name, 0)
        )
        if count > fastest:
            reasons.append(f"Pool {name} grows to {fastest} for now, as fast as it may.")
            count = fastest
        if name in snapshot.pinned:
            count = min(max(snapshot.pinned[name], 0), state.settings.max)
            reasons.insert(0, f"Pool {name} is set to {count}.")
            if count != snapshot.pinned[name]:
                warnings.append(f"Pool {name} is set to {snapshot.pinned[name]}, and has {count} at most.")
        counts[name] = count
        price, interruptions = spot_market(state, snapshot)
        spots[name] = with_spot(state, count, price, interruptions, wary=name in wary)
        if spots[name].reason:
            reasons.append(spots[name].reason)
    # Replicas that do not come to be ready count as well, for as long as they are there; not where an operator has set
    # the size, nor where nobody asks for the model.
    wanted = {
        name: spot.wanted
        if idle is not None or name in snapshot.pinned
        else min(spot.wanted + states[name].stuck, max(states[name].settings.max, spot.wanted))
        for name, spot in spots.items()
    }
    short = {
        name: since
        for name, spot in spots.items()
        if (since := short_since(states[name], spot.spot, memory.spot_short_since.get(name), now)) is not None
    }
    away = {name: now for name, since in short.items() if spot_stays_away(states[name], since, now)}
    decision = Decision(
        at=now,
        pools={
            name: PoolDecision(
                wanted=wanted[name], spot=spots[name].spot, needed=sizing.needed[name], reason=reasons[0]
            )
            for name in scaled
        },
        cost=_cost(scaled, snapshot, wanted, spots),
        inputs=sizing.inputs,
        reasons=reasons,
        warnings=warnings,
    )
    return decision, msgspec.structs.replace(
        memory,
        at=now,
        wanted=with_wanted(memory.wanted, counts, now, scaling.up_seconds),
        decided=counts,
        reserve={name: spot.reserve for name, spot in spots.items()},
        spot_seen={
            name: spot_seen(states[name], memory.spot_seen.get(name, 0), spot.spot) for name, spot in spots.items()
        },
        spot_lost_at={**lost_at, **away},
        spot_short_since=short,
    )


def _lost_at(memory: Memory, states: Mapping[str, PoolState], now: float) -> dict[str, float]:
    """Return when many spot replicas were lost at once, by pool."""
    lost = {
        name: now for name, state in states.items() if state.seen and lost_spot(state, memory.spot_seen.get(name, 0))
    }
    return {**memory.spot_lost_at, **lost}


def _idle(scaling: ModelScaling, memory: Memory, now: float) -> Sizing | None:
    """Return nothing at all where the model may go to zero and no request has come for long enough."""
    idle = now - (now if memory.busy_at is None else memory.busy_at)
    if idle < scaling.idle_seconds or any(pool.min for pool in scaling.pools):
        return None
    nothing = {pool.name: 0 for pool in scaling.pools}
    known = 0.0 if memory.since is None else now - memory.since
    # At first nothing is known of before, nor after a hole.
    lasted = f"for {idle:.0f} s" if idle <= known else "as far back as is known"
    return Sizing(
        counts=nothing,
        needed=nothing,
        measured=nothing,
        memory=memory,
        inputs={"idle_seconds": idle},
        reasons=[f"No request has come {lasted}."],
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


def _cost(
    states: Mapping[str, PoolState], snapshot: Snapshot, wanted: Mapping[str, int], spots: Mapping[str, SpotPlan]
) -> float | None:
    """Return dollars an hour; None where a price that counts is unknown."""
    total = 0.0
    for name, state in states.items():
        spot = spots[name].spot
        spot_price, _ = spot_market(state, snapshot)
        for count, price in ((wanted[name] - spot, state.settings.price), (spot, spot_price)):
            if count and price is None:
                return None
            total += count * (price or 0.0)
    return total
