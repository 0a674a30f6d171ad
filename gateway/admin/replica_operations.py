"""Admin operations on replicas."""

from typing import Annotated, Final

from msgspec import Meta

from gateway.admin.admin_paging import Page, PageQuery, page_of
from gateway.admin.operation import Call, NoQuery, Operation
from gateway.config.base import Record
from gateway.fleets.drains import GRACE_SECONDS, LONGEST_GRACE_SECONDS, Drain
from gateway.fleets.listing import ReplicaView
from protos.errors import Conflict, InvalidRequest, ReplicaNotFound

_MODEL: Final = "Needed only where several models have a replica or pool of the name."
_TARGET: Final = "A replica, as `narrow/0`, or a whole pool, as `narrow`."


class ReplicasQuery(PageQuery, frozen=True, kw_only=True):
    """Query parameters that select replicas."""

    model: Annotated[Annotated[str, Meta(min_length=1)] | None, Meta(description="Only this model's.")] = None


class ResumeRequest(Record, frozen=True, kw_only=True):
    """The replica or pool to resume."""

    target: Annotated[str, Meta(min_length=1, description=_TARGET)]
    model: Annotated[str | None, Meta(description=_MODEL)] = None


class DrainRequest(ResumeRequest, frozen=True, kw_only=True):
    """The replica or pool to drain."""

    grace_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=LONGEST_GRACE_SECONDS,
            description="After so long, requests that still run there go on at other replicas.",
        ),
    ] = GRACE_SECONDS


class Resumed(Record, frozen=True, kw_only=True):
    """The drains that were ended; empty where nothing was drained."""

    drains: list[Drain]


async def list_replicas(call: Call[ReplicasQuery, None]) -> Page[ReplicaView]:
    """List all replicas."""
    rows = await call.service.replicas.replicas(call.query.model)
    places = {(row.model, row.id): f"{place:06}" for place, row in enumerate(rows)}
    return page_of(rows, call.query, lambda row: places[row.model, row.id], str)


async def drain_replicas(call: Call[NoQuery, DrainRequest]) -> Drain:
    """Drain a replica or a pool: it gets no more requests."""
    body = call.body
    return await call.service.replicas.drain(body.model, body.target, body.grace_seconds, call.actor)


async def resume_replicas(call: Call[NoQuery, ResumeRequest]) -> Resumed:
    """Resume a drained replica or pool."""
    return Resumed(drains=await call.service.replicas.resume(call.body.model, call.body.target, call.actor))


OPERATIONS: Final = (
    Operation(
        "GET",
        "/admin/replicas",
        "listReplicas",
        "All replicas and how they are, in the configuration's order",
        list_replicas,
        Page[ReplicaView],
        ReplicasQuery,
        errors=(ReplicaNotFound,),
    ),
    Operation(
        "POST",
        "/admin/replicas/drain",
        "drainReplicas",
        "Give no more requests to a replica or a pool; every worker heeds it within a second",
        drain_replicas,
        Drain,
        body=DrainRequest,
        errors=(InvalidRequest, ReplicaNotFound, Conflict),
    ),
    Operation(
        "POST",
        "/admin/replicas/resume",
        "resumeReplicas",
        "Undo a drain, and with a pool's those of its replicas",
        resume_replicas,
        Resumed,
        body=ResumeRequest,
        errors=(InvalidRequest, ReplicaNotFound, Conflict),
    ),
)
