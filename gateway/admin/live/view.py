"""A live snapshot of the gateway, as the console, `penstock top` and scripts get it. Unknown values are null."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from gateway.admin.limit_operations import ScopeLimits
from gateway.config.base import Record
from gateway.fleets.listing import ReplicaView, ShapeView
from gateway.reshaping.reshape_registry import ShapesView
from gateway.rollouts.rollout_registry import ModelVersions
from gateway.scaling.status import ModelStatus
from protos.types import Role


class Times(Record, frozen=True, kw_only=True):
    """Latency percentiles 50, 95 and 99, in seconds."""

    count: Annotated[int, Meta(description="How many values these are of.")]
    p50: float
    p95: float
    p99: float


class Figures(Record, frozen=True, kw_only=True):
    """Rates and latencies over the last `seconds`; null where nothing passed or too little was seen."""

    requests_per_second: Annotated[float | None, Meta(description="Requests that ended, failed ones too.")] = None
    tokens_per_second: Annotated[float | None, Meta(description="Of answers.")] = None
    ttft: Annotated[Times | None, Meta(description="Until the first token.")] = None
    itl: Annotated[Times | None, Meta(description="Between events of a stream that carry tokens.")] = None
    request: Annotated[
        Times | None, Meta(description="From arrival to the end of the answer, of requests that came to a replica.")
    ] = None


class Headline(Figures, frozen=True, kw_only=True):
    """The figures of the whole gateway."""

    prompt_tokens_per_second: Annotated[float | None, Meta(description="Cached ones too.")] = None
    errors_per_second: Annotated[float | None, Meta(description="Requests that the service itself failed.")] = None
    outcomes: Annotated[
        dict[str, float] | None, Meta(description="Requests a second that did not end as `ok`, by their outcome.")
    ] = None
    in_flight: Annotated[int | None, Meta(description="Requests under way in all workers.")] = None
    queued: Annotated[int | None, Meta(description="Of these, waiting for a turn.")] = None


class PoolLive(Record, frozen=True, kw_only=True):
    """A pool and its replicas."""

    name: str
    shape: ShapeView
    role: Role
    figures: Figures
    replicas: list[ReplicaView]


class ModelLive(Record, frozen=True, kw_only=True):
    """A model and its pools, in the configuration's order."""

    name: str
    queued: Annotated[int | None, Meta(description="Requests that wait for a turn.")]
    figures: Figures
    pools: list[PoolLive]


class TenantLive(Record, frozen=True, kw_only=True):
    """A tenant with its rates and its limits."""

    name: str
    tier: Annotated[str | None, Meta(description="Null while the store does not answer, and where it is the last.")]
    requests_per_second: float | None
    tokens_per_second: Annotated[float | None, Meta(description="Of prompts and answers.")]
    refused_per_second: Annotated[float | None, Meta(description="Refused by limits or budgets.")]
    failed_per_second: Annotated[float | None, Meta(description="Failed by the service.")]
    requests: Annotated[int, Meta(description="Since the gateway was started.")]
    scopes: Annotated[
        list[ScopeLimits] | None,
        Meta(description="Its own limits and those for single models; null while the store does not answer."),
    ]


class RecentError(Record, frozen=True, kw_only=True):
    """A failed request, and how many others failed in the same way."""

    time: Annotated[float, Meta(description="When the last of them arrived, in seconds since 1970.")]
    id: Annotated[str, Meta(description="Of the last of them.")]
    times: Annotated[int, Meta(description="How many of the last failures these are.")] = 1
    outcome: str
    code: str = ""
    detail: Annotated[str, Meta(description="What only operators see.")] = ""
    tenant: str = ""
    model: str = ""
    pool: str = ""
    replica: str = ""
    seconds: float = 0.0


class RecentRoute(Record, frozen=True, kw_only=True):
    """A routed request: its replica and the reason."""

    time: Annotated[float, Meta(description="When it arrived, in seconds since 1970.")]
    id: str
    model: str = ""
    pool: str = ""
    replica: str = ""
    policy: str = ""
    reason: str = ""
    ttft: Annotated[float, Meta(description="Seconds until its first token; 0 where there was none.")] = 0.0
    seconds: float = 0.0
    predicted: Annotated[int, Meta(description="Tokens of its prompt that were expected in the replica's cache.")] = 0
    cached: Annotated[int, Meta(description="Tokens of its prompt that were found there.")] = 0


class ScalingLive(Record, frozen=True, kw_only=True):
    """The controller's last status: models that scale with their pools, and the last decision on each model."""

    at: Annotated[float | None, Meta(description="When it was told, in seconds since 1970; null: never.")]
    fresh: Annotated[bool, Meta(description="Whether that was lately; otherwise there may be no controller.")]
    models: Sequence[ModelStatus]


class RolloutLive(Record, frozen=True, kw_only=True):
    """A model that goes by version, with its last rollout and the shares of that one's stages."""

    versions: ModelVersions
    shares: Sequence[float] = ()


class Live(Record, frozen=True, kw_only=True):
    """One live snapshot."""

    object: Literal["live"] = "live"
    time: Annotated[float, Meta(description="Of the look, in seconds since 1970.")]
    seconds: Annotated[float, Meta(description="What rates and times are of; 0 while too little has been seen.")]
    problems: Annotated[list[str], Meta(description="What cannot be shown at the moment, and why.")]
    headline: Headline
    models: list[ModelLive]
    tenants: Annotated[list[TenantLive], Meta(description="Those with the most requests.")]
    tenants_left_out: int
    errors: Annotated[list[RecentError], Meta(description="The newest first.")]
    routes: Annotated[list[RecentRoute], Meta(description="The newest first.")]
    rollouts: Annotated[
        Sequence[RolloutLive] | None, Meta(description="null: no model goes by version, or the store does not answer.")
    ] = None
    scaling: Annotated[ScalingLive | None, Meta(description="null: nothing scales, or the store does not answer.")] = (
        None
    )
    shapes: Annotated[
        ShapesView | None, Meta(description="null: no model has `reshape`, or the store does not answer.")
    ] = None
