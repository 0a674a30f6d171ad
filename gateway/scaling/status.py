"""What the controller publishes of its models: for commands, the admin API, the console and metrics.

Times are seconds since the epoch by the store's clock, costs US dollars an hour.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from gateway.store.unreadable import readable
from gateway.tenancy.tenants.transactions import Place, Storage, read

#: One hash tag for all that the controller keeps, which its scripts touch together.
PREFIX: Final = "penstock:{scaling}:"
#: A plain value: the status, as JSON.
STATUS: Final = f"{PREFIX}status"
#: Decisions that a status has of each model, the newest last.
MOST_DECISIONS: Final = 20
#: After so many seconds without a new one a status is shown as old.
FRESH_SECONDS: Final = 10.0

Mode = Literal["act", "advise"]


class ReplicaProgress(Record, frozen=True, kw_only=True):
    """A replica that a launcher has been asked for, or shows."""

    id: Annotated[str, Meta(description="Unique for ever.")]
    step: Annotated[
        str,
        Meta(description="`allocate`, `process`, `load`, `warm_up`, `ready`, `stopping` or `failed`."),
    ]
    since: Annotated[float, Meta(description="When it was started.")]
    step_since: Annotated[float, Meta(description="When this step was first seen.")]
    spot: bool = False
    address: Annotated[str, Meta(description="Empty while unknown.")] = ""
    problem: Annotated[str, Meta(description="Why it failed, or is late; empty otherwise.")] = ""


class PoolStatus(Record, frozen=True, kw_only=True):
    """A pool that scales."""

    name: str
    launcher: str
    shape: Annotated[str, Meta(description="As `tp8`, `tp2-pp2`.")]
    min: int
    max: int
    wanted: Annotated[int, Meta(description="Replicas that shall run.")]
    needed: Annotated[int, Meta(description="What the load alone asks for.")]
    ready: Annotated[int, Meta(description="Replicas that serve.")]
    starting: Annotated[Sequence[ReplicaProgress], Meta(description="Those that were started and are not ready.")] = ()
    stopping: Annotated[Sequence[ReplicaProgress], Meta(description="Those that drain or end.")] = ()
    failed: Annotated[Sequence[ReplicaProgress], Meta(description="Starts that failed lately, and are repeated.")] = ()
    spot_wanted: int = 0
    spot_ready: int = 0
    pinned: Annotated[int | None, Meta(description="What an operator has set; null: nothing.")] = None
    price_per_hour: Annotated[float | None, Meta(description="Of one replica; null: not known.")] = None
    spot_price_per_hour: float | None = None
    startup_seconds: Annotated[
        float | None, Meta(description="Median of the last starts; null: none was seen yet.")
    ] = None
    start_seconds: Annotated[
        Mapping[str, float], Meta(description="The same by step, of the replicas that are ready, as they say.")
    ] = {}
    launcher_errors: Annotated[
        int, Meta(description="Calls of its launcher that failed, and starts, since this controller took over.")
    ] = 0
    reason: Annotated[str, Meta(description="Why so many are wanted.")] = ""
    problem: Annotated[str, Meta(description="What keeps the launcher from acting; empty: nothing.")] = ""


class DemandStatus(Record, frozen=True, kw_only=True):
    """What clients want of a model: rates and means of the last `window` seconds, as all workers report them."""

    window: float
    requests_per_second: float
    prompt_tokens: Annotated[float, Meta(description="Of a request, mean.")] = 0.0
    cached_tokens: float = 0.0
    output_tokens: float = 0.0
    waiting: Annotated[int, Meta(description="Requests in admission queues.")] = 0
    oldest_wait: Annotated[float, Meta(description="Seconds.")] = 0.0
    in_flight: int = 0
    ttft_ratio: Annotated[float, Meta(description="p95 over its target; 0: nothing was observed.")] = 0.0
    tpot_ratio: float = 0.0


class ForecastStatus(Record, frozen=True, kw_only=True):
    """Expected requests per second, one value for each `step` seconds from `made` on."""

    made: float
    step: float
    mean: Sequence[float]
    upper: Sequence[float]
    method: str


class PoolDecided(Record, frozen=True, kw_only=True):
    """A decision about one pool."""

    wanted: int
    spot: int = 0
    needed: int = 0
    reason: str = ""


class DecisionRecord(Record, frozen=True, kw_only=True):
    """One decision about a model, with the figures that it was made from."""

    at: float
    model: str
    mode: Annotated[Mode, Meta(description="`advise`: it was told, and not followed.")] = "act"
    pools: Mapping[str, PoolDecided]
    cost: Annotated[float | None, Meta(description="US dollars an hour; null: a price is not known.")] = None
    inputs: Mapping[str, float]
    reasons: Annotated[Sequence[str], Meta(description="The decisive one first.")]
    warnings: Sequence[str] = ()


class ModelStatus(Record, frozen=True, kw_only=True):
    """A model that scales."""

    object: Literal["scaling"] = "scaling"
    model: str
    mode: Mode
    paused: Annotated[bool, Meta(description="An operator has paused it: nothing is started or stopped.")] = False
    pools: Sequence[PoolStatus]
    fixed: Annotated[
        Mapping[str, int],
        Meta(description="Ready replicas of the pools without a launcher, which are counted and cost nothing more."),
    ] = {}
    cost_per_hour: Annotated[
        float | None, Meta(description="Of what runs, starts and stops; null: a price is not known.")
    ] = None
    wanted_cost_per_hour: Annotated[float | None, Meta(description="Of what is wanted.")] = None
    budget_per_hour: float | None = None
    demand: Annotated[DemandStatus | None, Meta(description="null: no worker reports it.")] = None
    forecast: Annotated[ForecastStatus | None, Meta(description="null: there is none yet.")] = None
    decisions: Annotated[Sequence[DecisionRecord], Meta(description="The last ones, the newest last.")] = ()
    decided: Annotated[
        Mapping[str, int],
        Meta(description="Decisions since this controller took over, by what they changed: `up`, `down`, `same`."),
    ] = {}
    warnings: Sequence[str] = ()


class ControllerStatus(Record, frozen=True, kw_only=True):
    """The process that acts as controller."""

    name: Annotated[str, Meta(description="Host and process.")]
    since: Annotated[float, Meta(description="When it took over.")]
    token: Annotated[int, Meta(description="Grows with each that takes over; writes with an older one are refused.")]


class ScalingStatus(Record, frozen=True, kw_only=True):
    """All that scales, as the controller last published it."""

    at: float
    controller: ControllerStatus
    models: Sequence[ModelStatus]
    heeds: Annotated[Mapping[str, int], Meta(description="Version of what shapes hold that is heeded, by model.")] = {}


_DECODER: Final = msgspec.json.Decoder(ScalingStatus)


async def read_status(storage: Storage) -> tuple[float, ScalingStatus | None]:
    """The store's time and the last status; None where there is none, or another program version wrote it.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    now, (raw,) = await read(storage, [Place(STATUS)])
    found = readable([raw], _DECODER.decode) if raw else []
    return now, found[0] if found else None
