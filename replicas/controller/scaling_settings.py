"""What scaling of a model may do and shall reach."""

from collections.abc import Sequence

import msgspec

from protos.types import Role, Shape


class Slo(msgspec.Struct, frozen=True, kw_only=True):
    """Latency targets in seconds, and the share of requests that shall meet them."""

    ttft: float = 1.0
    ttft_per_token: float = 0.25e-3
    tpot: float = 0.05
    in_time: float = 0.99

    def first_token(self, prompt_tokens: float) -> float:
        """Return the TTFT target of a prompt."""
        return self.ttft + self.ttft_per_token * prompt_tokens


class PoolScaling(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds and prices of one pool's replicas. Prices are US dollars for a replica and hour; None: unknown.

    `startup_seconds` holds until starts have been seen. `spot_max` is how many of `max` may be preemptible. `fixed`:
    nothing starts or stops its replicas; those that are ready are capacity that costs nothing more, and no bound or
    price of it counts.
    """

    name: str
    shape: Shape
    min: int
    max: int
    role: Role = Role.BOTH
    price: float | None = None
    spot_price: float | None = None
    spot_max: int = 0
    startup_seconds: float = 120.0
    fixed: bool = False


class ModelScaling(msgspec.Struct, frozen=True, kw_only=True):
    """How one model scales. `budget` is in US dollars an hour; None: no bound.

    `down_seconds`: capacity is given back when it has not been needed for so long. `up_factor` and `up_replicas`:
    beyond what serves the rate that was measured, a pool grows at most by the larger of both in `up_seconds`.
    `idle_seconds`: without any request for so long, a model whose minima are 0 goes to zero.
    """

    model: str
    pools: Sequence[PoolScaling]
    slo: Slo = Slo()
    budget: float | None = None
    down_seconds: float = 300.0
    up_factor: float = 2.0
    up_replicas: int = 4
    up_seconds: float = 60.0
    idle_seconds: float = 600.0
