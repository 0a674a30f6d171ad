"""What a decision about a model's size is made from."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec


class StepTimes(Protocol):
    """The step times of one shape (`routing.estimates.step_model.StepModel` has them)."""

    def seconds(self, tokens: float, context: float = 0.0, pairs: float = 0.0) -> float:
        """Return the seconds of a step that computes `tokens` in all, reads `context` KV tokens and has `pairs`."""
        ...


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What clients want of a model. Rates and means are of the last `window` seconds; tokens are means of a request.

    `waiting` stand in the admission queues of all workers, for `oldest_wait` seconds at most. The ratios are observed
    p95 over target; 0: nothing was observed.
    """

    window: float
    requests_per_second: float
    prompt_tokens: float = 0.0
    cached_tokens: float = 0.0
    output_tokens: float = 0.0
    waiting: int = 0
    oldest_wait: float = 0.0
    in_flight: int = 0
    ttft_ratio: float = 0.0
    tpot_ratio: float = 0.0


class PoolSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A pool's replicas now. `starting` has the seconds since the start of each that is not ready yet.

    `kv_used` and `occupancy` (busy share of the engines' time, or of their GPUs) are means over those ready, 0 to 1.
    `kv_tokens`, `max_sequences` and `max_step_tokens` are one replica's; 0: not known. `step_times` None: nothing was
    learned of this shape yet. Ready and starting ones include spot ones.
    """

    ready: int = 0
    starting: Sequence[float] = ()
    stopping: int = 0
    spot_ready: int = 0
    spot_starting: int = 0
    running: int = 0
    waiting: int = 0
    kv_used: float = 0.0
    occupancy: float = 0.0
    kv_tokens: int = 0
    max_sequences: int = 0
    max_step_tokens: int = 0
    step_times: StepTimes | None = None
    startup_seconds: float | None = None
    unavailable: str = ""


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """Expected requests per second: `mean` and an `upper` bound, one value for each `step` seconds from `made` on."""

    made: float
    step: float
    mean: Sequence[float]
    upper: Sequence[float]
    method: str


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A model at one moment; `now` is in seconds of a clock that never goes back.

    `pinned` is what an operator has set, by pool: it replaces what would be wanted. `spot_price` and
    `interruptions_per_hour` (of one spot replica) are by pool, where a source tells them.
    """

    now: float
    demand: Demand
    pools: Mapping[str, PoolSnapshot]
    forecast: Forecast | None = None
    pinned: Mapping[str, int] = {}
    spot_price: Mapping[str, float] = {}
    interruptions_per_hour: Mapping[str, float] = {}
