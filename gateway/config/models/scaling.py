"""How a model's pools grow and shrink."""

from typing import Annotated, Literal

from msgspec import Meta

from gateway.config.base import Record

LauncherName = Literal["local", "command", "kubernetes"]

_Usd = Annotated[float, Meta(ge=0, le=1_000_000)]
_Count = Annotated[int, Meta(ge=0, le=1024)]


class PoolScaling(Record, frozen=True, kw_only=True):
    """Bounds and prices of a pool whose replicas a launcher starts."""

    min: Annotated[_Count, Meta(description="Replicas that always run; 0 in every pool of a model: it may go to zero.")]
    max: Annotated[Annotated[int, Meta(ge=1, le=1024)], Meta(description="Replicas that run at most.")]
    price_per_hour: Annotated[
        _Usd | None,
        Meta(description="US dollars for one replica and hour; unset: not known, which counts as the dearest."),
    ] = None
    spot_max: Annotated[_Count, Meta(description="How many of `max` may run on preemptible capacity.")] = 0
    spot_price_per_hour: Annotated[
        _Usd | None, Meta(description="The same for preemptible capacity; needed where `spot_max` is not 0.")
    ] = None
    startup_seconds: Annotated[
        float,
        Meta(gt=0, le=86_400, description="From the decision to the first request, until starts have been measured."),
    ] = 120.0
    start_timeout_seconds: Annotated[
        float,
        Meta(gt=0, le=604_800, description="A replica that is not ready after so long is ended, and another started."),
    ] = 1800.0


class Scaling(Record, frozen=True, kw_only=True):
    """How a model with pools that scale is sized."""

    mode: Annotated[
        Literal["act", "advise"], Meta(description="`advise` decides and tells, and starts and stops nothing.")
    ] = "act"
    in_time: Annotated[
        float,
        Meta(ge=0.5, le=0.9999, description="Share of requests that shall meet `routing.targets`."),
    ] = 0.99
    budget_per_hour: Annotated[
        _Usd | None,
        Meta(
            description="US dollars an hour. Where a decision would cost more than 1.5 times that, the mix of replicas "
            "that the budget buys is taken; unset: no bound."
        ),
    ] = None
    wait_seconds: Annotated[
        float,
        Meta(ge=0, le=3600, description="How long requests wait for a first replica while none runs; then 503."),
    ] = 60.0
    down_seconds: Annotated[
        float, Meta(ge=1, le=86_400, description="Replicas go when they have not been needed for so long.")
    ] = 300.0
    idle_seconds: Annotated[
        float, Meta(ge=1, le=604_800, description="Without a request for so long, pools whose `min` is 0 go to zero.")
    ] = 600.0


class ControllerSettings(Record, frozen=True, kw_only=True):
    """The controllers of pools' sizes, of rollouts and of shapes. `penstock controller` runs one alone, whatever is set
    here.
    """

    enabled: Annotated[
        bool,
        Meta(
            description="Whether `penstock serve` runs one, where a pool has a launcher, a model goes by version, or "
            "has `reshape`."
        ),
    ] = True
