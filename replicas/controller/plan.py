"""From a needed rate to counts: what is added at once, what is given back, and which mix is cheaper for good."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from protos.types import Role
from replicas.controller.fleet_capacity import FleetCapacity
from replicas.controller.mix import PoolRange, cheapest_mix, cost
from replicas.controller.pool_state import PoolState
from replicas.controller.spot import SpotOffer

#: Capacity beyond what is needed that must be left when replicas go, relative to it.
SPARE = 0.03
#: What another mix must save to be changed to, relative to what runs: every change starts replicas.
SAVING = 0.1


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Counts by pool, and a sentence of why; `short`: all that may run is not enough."""

    counts: Mapping[str, int]
    reason: str
    short: bool = False


def counted(states: Mapping[str, PoolState]) -> dict[str, int]:
    """Return the replicas of each pool that serve or soon will."""
    return {name: state.counted for name, state in states.items()}


def ranges(
    states: Mapping[str, PoolState], prices: Mapping[str, float], spot: Mapping[str, SpotOffer]
) -> list[PoolRange]:
    """Return what counts each pool may have, at which prices."""
    return [
        PoolRange(
            name,
            state.settings.role,
            least=min(state.settings.min, state.most),
            most=state.most,
            price=prices[name],
            running=state.counted,
            spot_price=spot[name].price if name in spot else None,
            spot_after=state.settings.min,
            spot_most=spot[name].most if name in spot else 0,
        )
        for name, state in states.items()
    ]


def with_more(
    states: Mapping[str, PoolState], pools: Sequence[PoolRange], capacity: FleetCapacity, rate: float
) -> Plan | None:
    """Return the plan that adds what `rate` needs, at least cost, to what there is; None where that is enough."""
    now = counted(states)
    if capacity.rate(now) >= rate and all(now[pool.name] >= pool.least for pool in pools):
        return None
    raised = [replace(pool, least=min(max(now[pool.name], pool.least), pool.most)) for pool in pools]
    mix = cheapest_mix(raised, capacity, rate)
    if mix is None:
        most = {pool.name: pool.most for pool in pools}
        return Plan(counts=most, reason=f"All that may run serves {capacity.rate(most):.2f} requests/s.", short=True)
    return Plan(counts=mix, reason=f"What there is serves {capacity.rate(now):.2f} requests/s.")


def with_less(
    states: Mapping[str, PoolState],
    pools: Sequence[PoolRange],
    capacity: FleetCapacity,
    rate: float,
    *,
    change_mix: bool,
) -> Plan | None:
    """Return the plan that gives back what `rate` does not need; None where nothing can go.

    With `change_mix`, replicas of other shapes are started where they are enough cheaper; what they replace goes once
    they are ready.
    """
    now = counted(states)
    rate *= 1.0 + SPARE
    lowered = [replace(pool, least=min(pool.least, now[pool.name]), most=now[pool.name]) for pool in pools]
    fewer = cheapest_mix(lowered, capacity, rate)
    kept = now if fewer is None else fewer
    if change_mix:
        other = cheapest_mix(pools, capacity, rate)
        if other is not None and cost(other, pools) < (1.0 - SAVING) * cost(kept, pools):
            counts = {name: max(count, kept[name]) for name, count in other.items()}
            if counts != now and any(counts[name] > now[name] for name in counts):
                return Plan(counts=counts, reason=f"Another mix of shapes saves more than {SAVING:.0%}.")
    if fewer is None or fewer == now:
        return None
    ready = {name: min(state.ready, fewer[name]) for name, state in states.items()}
    if capacity.rate(ready) < rate and any(fewer[name] < state.ready for name, state in states.items()):
        return None  # what is to stay is not ready yet
    return Plan(counts=fewer, reason=f"What is left serves {capacity.rate(fewer):.2f} requests/s.")


def least_serving(pools: Sequence[PoolRange]) -> dict[str, int]:
    """Return the cheapest counts that serve anything at all: one replica, or one of each role of a pair."""
    counts = {pool.name: pool.least for pool in pools}
    options = []
    for roles in ((Role.BOTH,), (Role.PREFILL, Role.DECODE)):
        chosen = [_cheapest(pools, role) for role in roles]
        parts = [pool for pool in chosen if pool is not None]
        if len(parts) == len(roles):
            options.append((sum(pool.cost(1) for pool in parts if not pool.least), len(parts), parts))
    if options:
        _, _, parts = min(options, key=lambda option: option[:2])
        for pool in parts:
            counts[pool.name] = max(1, pool.least)
    return counts


def _cheapest(pools: Sequence[PoolRange], role: Role) -> PoolRange | None:
    some = [pool for pool in pools if pool.role is role and pool.most > 0]
    # One that runs anyway costs nothing; of others, one that runs already is there sooner.
    return min(some, key=lambda pool: (pool.least == 0, pool.cost(1), not pool.running, pool.name), default=None)
