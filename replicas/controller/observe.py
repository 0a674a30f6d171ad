"""What a snapshot adds to what a controller remembers."""

from math import isfinite

import msgspec

from replicas.controller.memory import Memory
from replicas.controller.pool_state import learned_startups
from replicas.controller.rate_history import RateSample, sampled, with_sample
from replicas.controller.scaling_settings import ModelScaling
from replicas.controller.snapshot import Demand, Snapshot
from replicas.controller.stability import HOLE
from replicas.controller.workload import workload_of

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
        in_time = max(demand.ttft_ratio, demand.tpot_ratio) <= 1
        per_gpu = sample.rate / gpus
        served = max(served, per_gpu) if in_time else min(served, _TOO_MUCH * per_gpu)
    busy = memory.busy_at is None or memory.busy_at > now or _busy(demand)
    startup, oldest = learned_startups(memory, snapshot)
    return msgspec.structs.replace(
        memory,
        since=since,
        busy_at=now if busy else memory.busy_at,
        history=with_sample(memory.history, sample),
        sample=sample,
        needs=tuple(need for need in memory.needs if need.at <= now),
        workload=workload_of(demand) or memory.workload,
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
