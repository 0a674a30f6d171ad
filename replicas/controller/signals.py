"""How pressed a pool is: equation 2 of the Hanzo paper with the SLO as a fifth signal, and weights learned by outcome.

Each signal is 1 where its bound is reached. Pressure is their weighted mean: how many times what is ready would be
enough.
"""

from collections.abc import Mapping
from math import exp, isfinite

import msgspec

from protos.types import Role
from replicas.controller.lateness import lateness
from replicas.controller.scaling_settings import Slo
from replicas.controller.snapshot import Demand, PoolSnapshot

#: Busy share and use of the KV cache beyond which an engine is full.
MOST_OCCUPANCY, MOST_KV = 0.95, 0.9
#: What a signal counts at most: a miss by ten times is not ten times as many replicas.
MOST_SIGNAL = 2.0
#: Weights where nothing was learned: what the capacity says and what clients feel count most.
WEIGHTS: Mapping[str, float] = {"tokens": 0.4, "queue": 0.15, "occupancy": 0.05, "kv": 0.1, "slo": 0.3}
#: Each learned weight is at least this, so that a signal that has been useless may become useful.
LEAST_WEIGHT = 0.03
#: How fast weights are learned, how fast they are forgotten, and what an outcome without a miss counts beside one with.
_LEARNING, _FORGETTING, _NO_MISS = 0.3, 0.002, 0.1
#: How sharply a signal that passes 1 says that there will be a miss.
_SHARPNESS = 8.0


class Signals(msgspec.Struct, frozen=True, kw_only=True):
    """Each signal of a pool, 0 to 2: tokens per second over what the capacity allows, the queue over its bound, the
    busy share, the use of the KV cache, and the SLO's ratios.
    """

    tokens: float
    queue: float
    occupancy: float
    kv: float
    slo: float

    def named(self) -> dict[str, float]:
        """Return the signals by name."""
        return {name: getattr(self, name) for name in WEIGHTS}


def pool_signals(role: Role, pool: PoolSnapshot, demand: Demand, slo: Slo, rate: float, capacity: float) -> Signals:
    """Return a pool's signals. `capacity` is what those ready serve per second; 0: not known, which says nothing.

    The queue's bound is what those ready begin within the target TTFT.
    """
    bound = max(1.0, (capacity or rate) * slo.first_token(demand.prompt_tokens))
    return Signals(
        tokens=_bounded(rate / capacity) if capacity > 0 else 0.0,
        queue=_bounded((max(demand.waiting, 0) + max(pool.waiting, 0)) / bound),
        occupancy=_bounded(pool.occupancy / MOST_OCCUPANCY),
        kv=_bounded(pool.kv_used / MOST_KV),
        slo=_bounded(lateness(demand, slo, role)),
    )


def pressure(signals: Signals, weights: Mapping[str, float]) -> float:
    """Return the weighted mean of the signals."""
    named = signals.named()
    total = sum(weights.get(name, 0.0) for name in WEIGHTS)
    if total <= 0:
        return pressure(signals, WEIGHTS)
    return sum(weights.get(name, 0.0) * value for name, value in named.items()) / total


def learned_weights(weights: Mapping[str, float], signals: Signals, *, missed: bool) -> dict[str, float]:
    """Return the weights after it is known whether the SLO was missed within a start-up time of these signals.

    Each signal is an expert that foretells a miss by how far it is beyond 1; its weight shrinks with its error (Freund
    and Schapire's Hedge), and slowly returns to the default. Weights sum to 1, each at least 0.03.
    """
    importance = _LEARNING * (1.0 if missed else _NO_MISS)
    learned = {}
    for name, value in signals.named().items():
        foretold = 1.0 / (1.0 + exp(-_SHARPNESS * (value - 1.0)))
        weight = max(weights.get(name, WEIGHTS[name]), 0.0) * exp(-importance * (foretold - missed) ** 2)
        learned[name] = weight
    total = sum(learned.values())
    if total <= 0:
        return dict(WEIGHTS)
    # What is above the least weight is shared out, so that the sum stays 1.
    above = {
        name: max(0.0, (1.0 - _FORGETTING) * weight / total + _FORGETTING * WEIGHTS[name] - LEAST_WEIGHT)
        for name, weight in learned.items()
    }
    share = (1.0 - LEAST_WEIGHT * len(above)) / sum(above.values())
    return {name: LEAST_WEIGHT + share * weight for name, weight in above.items()}


def _bounded(value: float) -> float:
    return min(max(value, 0.0), MOST_SIGNAL) if isfinite(value) else 0.0
