"""Admin operations on drift."""

from typing import Annotated, Final

from msgspec import Meta

from gateway.admin.operation import Call, NoQuery, Operation
from gateway.config.base import Record
from gateway.rollouts.drift.drift_view import DriftView
from protos.errors import ReplicaNotFound


class DriftQuery(Record, frozen=True, kw_only=True):
    """Query parameters that select a model."""

    model: Annotated[Annotated[str, Meta(min_length=1)] | None, Meta(description="Only this one.")] = None


class DriftModelRequest(Record, frozen=True, kw_only=True):
    """A model with drift."""

    model: Annotated[str, Meta(min_length=1)]


async def get_drift(call: Call[DriftQuery, None]) -> DriftView:
    """Return the last windows beside their references."""
    return await call.service.drift.view(call.query.model)


async def reset_drift(call: Call[NoQuery, DriftModelRequest]) -> DriftView:
    """Begin a model's references anew."""
    return await call.service.drift.reset(call.body.model, call.actor)


OPERATIONS: Final = (
    Operation(
        "GET",
        "/admin/drift",
        "getDrift",
        "What clients send and models answer, beside the reference of each: distances, thresholds, what has moved",
        get_drift,
        DriftView,
        DriftQuery,
        errors=(ReplicaNotFound,),
    ),
    Operation(
        "POST",
        "/admin/drift/reset",
        "resetDrift",
        "Begin the references of a model anew, as after a change that shall stay",
        reset_drift,
        DriftView,
        body=DriftModelRequest,
        errors=(ReplicaNotFound,),
    ),
)
