"""Admin operations on scaling."""

from typing import Annotated, Final

from msgspec import Meta

from gateway.admin.operation import Call, NoQuery, Operation
from gateway.config.base import Record
from gateway.scaling.scaling_registry import MOST_EXPLAINED, OverrideView, ScalingView
from gateway.scaling.status import DecisionRecord
from protos.errors import Conflict, InvalidRequest, ReplicaNotFound


class ScalingQuery(Record, frozen=True, kw_only=True):
    """Query parameters that select a model."""

    model: Annotated[Annotated[str, Meta(min_length=1)] | None, Meta(description="Only this one.")] = None


class DecisionsQuery(ScalingQuery, frozen=True, kw_only=True):
    """Query parameters that select decisions."""

    limit: Annotated[int, Meta(ge=1, le=MOST_EXPLAINED, description="Decisions at most, the newest ones.")] = 20


class ModelRequest(Record, frozen=True, kw_only=True):
    """A model that scales."""

    model: Annotated[str, Meta(min_length=1)]


class SetRequest(Record, frozen=True, kw_only=True):
    """A pool's size."""

    pool: Annotated[str, Meta(min_length=1)]
    replicas: Annotated[int | None, Meta(description="0 to the pool's max; null: what is wanted again.")]
    model: Annotated[str | None, Meta(description="Needed only where several models have a pool of the name.")] = None


class Decisions(Record, frozen=True, kw_only=True):
    """Decisions, the newest last."""

    decisions: list[DecisionRecord]


async def get_scaling(call: Call[ScalingQuery, None]) -> ScalingView:
    """Return what the controller tells of models that scale."""
    return await call.service.scaling.view(call.query.model)


async def get_decisions(call: Call[DecisionsQuery, None]) -> Decisions:
    """Return the last decisions."""
    return Decisions(decisions=await call.service.scaling.decisions(call.query.model, call.query.limit))


async def set_replicas(call: Call[NoQuery, SetRequest]) -> OverrideView:
    """Set a pool's size by hand."""
    body = call.body
    return await call.service.scaling.set_replicas(body.model, body.pool, body.replicas, call.actor)


async def pause_scaling(call: Call[NoQuery, ModelRequest]) -> OverrideView:
    """Pause a model's scaling."""
    return await call.service.scaling.pause(call.body.model, call.actor)


async def resume_scaling(call: Call[NoQuery, ModelRequest]) -> OverrideView:
    """Undo a pause."""
    return await call.service.scaling.resume(call.body.model, call.actor)


OPERATIONS: Final = (
    Operation(
        "GET",
        "/admin/scaling",
        "getScaling",
        "Models that scale: what is wanted, runs, starts and costs, and the last decisions",
        get_scaling,
        ScalingView,
        ScalingQuery,
        errors=(ReplicaNotFound,),
    ),
    Operation(
        "GET",
        "/admin/scaling/decisions",
        "listScalingDecisions",
        "The last decisions, with the figures that they were made from",
        get_decisions,
        Decisions,
        DecisionsQuery,
        errors=(ReplicaNotFound,),
    ),
    Operation(
        "POST",
        "/admin/scaling/set",
        "setReplicas",
        "Have a pool of so many replicas, whatever would be wanted; with null, what is wanted again",
        set_replicas,
        OverrideView,
        body=SetRequest,
        errors=(InvalidRequest, ReplicaNotFound, Conflict),
    ),
    Operation(
        "POST",
        "/admin/scaling/pause",
        "pauseScaling",
        "Start and stop nothing of a model; decisions go on being told",
        pause_scaling,
        OverrideView,
        body=ModelRequest,
        errors=(ReplicaNotFound, Conflict),
    ),
    Operation(
        "POST",
        "/admin/scaling/resume",
        "resumeScaling",
        "Undo a pause",
        resume_scaling,
        OverrideView,
        body=ModelRequest,
        errors=(ReplicaNotFound, Conflict),
    ),
)
