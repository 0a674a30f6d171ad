"""What a snapshot adds to what a controller remembers."""

from math import isfinite

import msgspec

from replicas.controller.forecast.rate_history import RateSample, sampled, with_outage, with_sample
from replicas.controller.lateness import lateness
from replicas.controller.memory import Memory
from replicas.controller.pool_state import learned_startups
from replicas.controller.scaling_settings import ModelScaling
from replicas.controller.snapshot import Demand, Snapshot
from replicas.controller.stability import HOLE
from replicas.controller.workload import learned_workload

#: Seconds that a change of what runs needs to show in what clients see.
SETTLE = 60.0
#: What is taken for served in time of a rate at which clients waited too long.
_TOO_MUCH = 0.95


def observed(scaling: ModelScaling, memory: Memory, snapshot: Snapshot) -> Memory:
    """Return the memory with what the snapshot shows; where a clock has jumped, needs are known from now on only."""
    now, demand = snapshot.now, snapshot.demand
    since, settled = memory.since, memory.settled_at
    if since is None or memory.at is None or not 0 <= now - memory.at <= HOLE:
        since = now
    ready = {name: max(pool.ready, 0) for name, pool in snapshot.pools.items()}
    if settled is None or settled > now or ready != memory.ready:
        settled = now
    served, gpus = memory.served, sum(ready.get(pool.name, 0) * pool.shape.gpus for pool in scaling.pools)
    sample = _sample(memory, snapshot)
    if gpus and now - settled >= SETTLE:
        ratio, per_gpu = lateness(demand, scaling.slo), sample.rate / gpus
        if 0 < ratio <= 1:
            served = max(served, per_gpu)
        elif ratio > 1:
            served = min(served, _TOO_MUCH * per_gpu)
    busy = memory.busy_at is None or memory.busy_at > now or _busy(demand)
    if memory.busy_at is None and _is_at_zero(scaling, snapshot):
        # Where nothing runs and nobody asks nothing is begun, as if it had gone to zero just now.
        memory, busy = msgspec.structs.replace(memory, busy_at=now - scaling.idle_seconds), False
    startup, oldest = learned_startups(memory, snapshot)
    return msgspec.structs.replace(
        memory,
        since=since,
        busy_at=now if busy else memory.busy_at,
        history=with_sample(memory.history, sample),
        sample=sample,
        outage=with_outage(memory.outage, memory.history, sample),
        needs=tuple(need for need in memory.needs if need.at <= now),
        workload=learned_workload(memory.workload, demand, now - (now if memory.at is None else memory.at)),
        startup=startup,
        oldest_start=oldest,
        ready=ready,
        settled_at=settled,
        served=served,
    )


def _sample(memory: Memory, snapshot: Snapshot) -> RateSample:
    """Return the rate that a snapshot shows; one that is no rate counts as 0, which its window makes nothing of."""
    demand = snapshot.demand
    rate = demand.requests_per_second
    window = max(demand.window, 1.0) if isfinite(demand.window) else 1.0
    good = isfinite(rate) and rate >= 0
    return sampled(memory.history, snapshot.now, rate if good else 0.0, window)


def _busy(demand: Demand) -> bool:
    """Whether there is any request; where nobody has counted them there may be some."""
    return demand.window <= 0 or demand.requests_per_second > 0 or demand.waiting > 0 or demand.in_flight > 0


def _is_at_zero(scaling: ModelScaling, snapshot: Snapshot) -> bool:
    """Whether nothing runs and nobody is there: a request that waits is seen whatever window it is counted in."""
    pools, demand = [snapshot.pools.get(pool.name) for pool in scaling.pools], snapshot.demand
    nothing = all(pool is not None and not (pool.ready or pool.starting or pool.stopping) for pool in pools)
    return nothing and not (demand.requests_per_second > 0 or demand.waiting > 0 or demand.in_flight > 0)
