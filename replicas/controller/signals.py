"""How pressed a model's replicas are: equation 2 of the Hanzo paper with the SLO as a fifth signal.

Each signal is 1 where its bound is reached. Pressure is their weighted mean; it says how many times the replicas that
are ready would be enough.
"""

from collections.abc import Mapping
from math import isfinite

import msgspec

from replicas.controller.scaling_settings import ModelScaling
from replicas.controller.snapshot import Snapshot

#: Busy share and use of the KV cache beyond which an engine is full.
MOST_OCCUPANCY, MOST_KV = 0.95, 0.9
#: What a signal counts at most: a miss by ten times is not ten times as many replicas.
MOST_SIGNAL = 2.0


class Signals(msgspec.Struct, frozen=True, kw_only=True):
    """Each signal of equation 2 and the SLO's, 0 to 2; 1: the bound is reached."""

    tokens: float
    queue: float
    occupancy: float
    kv: float
    slo: float

    def named(self) -> Mapping[str, float]:
        """Return the signals by name."""
        return {name: getattr(self, name) for name in NAMES}


NAMES = ("tokens", "queue", "occupancy", "kv", "slo")
#: Weights where nothing was learned: what the capacity says and what clients feel count most.
WEIGHTS: Mapping[str, float] = {"tokens": 0.4, "queue": 0.15, "occupancy": 0.05, "kv": 0.1, "slo": 0.3}


def signals(scaling: ModelScaling, snapshot: Snapshot, rate: float, capacity: float) -> Signals:
    """Return a model's signals. `capacity` is what those ready serve per second; 0: not known, which says nothing.

    The queue's bound is what those ready begin within the target TTFT.
    """
    demand = snapshot.demand
    pools = [pool for pool in (snapshot.pools.get(named.name) for named in scaling.pools) if pool and pool.ready > 0]
    ready = sum(pool.ready for pool in pools)
    waiting = max(demand.waiting, 0) + sum(max(pool.waiting, 0) for pool in pools)
    pace = capacity or rate
    bound = max(1.0, pace * scaling.slo.first_token(demand.prompt_tokens))
    return Signals(
        tokens=_bounded(rate / capacity) if capacity > 0 else 0.0,
        queue=_bounded(waiting / bound),
        occupancy=_bounded(sum(pool.ready * pool.occupancy for pool in pools) / ready / MOST_OCCUPANCY)
        if ready
        else 0.0,
        kv=_bounded(sum(pool.ready * pool.kv_used for pool in pools) / ready / MOST_KV) if ready else 0.0,
        slo=_bounded(max(demand.ttft_ratio, demand.tpot_ratio)),
    )


def pressure(signals: Signals, weights: Mapping[str, float]) -> float:
    """Return the weighted mean of the signals."""
    named = signals.named()
    total = sum(weights.values())
    return sum(weights[name] * named[name] for name in NAMES) / total if total > 0 else max(named.values())


def _bounded(value: float) -> float:
    return min(max(value, 0.0), MOST_SIGNAL) if isfinite(value) else 0.0
