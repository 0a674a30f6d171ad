"""When the host groups of a model change their shapes."""

from typing import Annotated, Literal

from msgspec import Meta

from gateway.config.base import Record

_KvTokens = Annotated[int, Meta(ge=1, le=1_000_000_000)]
_PoolName = Annotated[str, Meta(min_length=1, max_length=48)]


class Relaunch(Record, frozen=True, kw_only=True):
    """Two pools of a model whose replicas take each other's GPUs: one drains and stops where the other starts."""

    narrow: Annotated[_PoolName, Meta(description="Name of the pool of narrow replicas, which has a `launcher`.")]
    wide: Annotated[_PoolName, Meta(description="Name of the pool of wide ones, with the same launcher.")]
    narrow_kv_tokens: Annotated[
        _KvTokens | None,
        Meta(description="KV tokens that a narrow replica holds; unset: what the pool's replicas last told."),
    ] = None
    wide_kv_tokens: Annotated[
        _KvTokens | None,
        Meta(description="The same of a wide one; unset: nothing is decided before one has run, as by an order."),
    ] = None


class Reshape(Record, frozen=True, kw_only=True):
    """How the model's replicas that share GPUs change their TP degree at run time."""

    mode: Annotated[
        Literal["off", "advise", "apply"],
        Meta(
            description="`advise`: changes are decided and shown, and none is made; `apply`: they are made; `off`: "
            "nothing is decided. Operators can change shapes in all three."
        ),
    ] = "advise"
    patience_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=3600,
            description="How long a long request waits for room at replicas that hold it before one more becomes "
            "wide. Where none holds it, the change begins at once.",
        ),
    ] = 2.0
    cool_down_seconds: Annotated[
        float, Meta(ge=1, le=86_400, description="How long a group keeps its shape at least.")
    ] = 30.0
    margin: Annotated[
        float,
        Meta(ge=1, le=100, description="How many times the cost of a change to and fro must be gained by going back."),
    ] = 2.0
    horizon_seconds: Annotated[
        float, Meta(ge=1, le=86_400, description="Time ahead over which that gain is counted at most.")
    ] = 600.0
    headroom: Annotated[
        float,
        Meta(
            ge=1,
            le=10,
            description="How many times the rate of short requests what stays narrow must serve before another "
            "replica becomes wide.",
        ),
    ] = 1.2
    transform_seconds: Annotated[
        float,
        Meta(
            ge=1, le=3600, description="How long a change may take in engines that make it in place; then it is undone."
        ),
    ] = 30.0
    webhook: Annotated[
        str | None,
        Meta(
            description="Address, `http://` or `https://`, that gets an event as a JSON POST when a change is done or "
            "has failed; unset: none."
        ),
    ] = None
    relaunch: Annotated[
        Relaunch | None,
        Meta(
            description="For engines that cannot change in place: replicas of one pool are drained and stopped, and "
            "those of the other one started on their GPUs; unset: none are."
        ),
    ] = None
