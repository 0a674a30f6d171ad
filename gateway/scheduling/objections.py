"""Reasons why the admission queue would not send a request to a replica now."""

from collections.abc import Mapping, Sequence

from gateway.scheduling.capacity import (
    Demand,
    Need,
    could_ever,
    has_long_backlog,
    obstacle,
    servable,
    usable,
    with_promised,
)
from gateway.scheduling.division import Divider, TenantUse
from routing.contracts.policy import ReplicaView

UNPAIRED = "nothing to pair it with"
TOO_SMALL = "too small for this request"
RESERVED = "what is free is reserved for others"
NOT_ITS_LANE = "not one of the tenant's lanes"
HELD = "kept for a request that waited long"
BACKLOG = "prompts wait there already"
OTHERS_LANE = "another tenant's lane"


def objections(
    views: Sequence[ReplicaView],
    promised: Mapping[str, Need],
    demand: Demand,
    tenant: TenantUse,
    divider: Divider,
    now: float,
    watermark: float,
    held: frozenset[str],
) -> dict[str, str]:
    """The first reason against each replica, by id; no entry for a replica without one.

    A long backlog and other tenants' lanes are reasons only while there is a better replica. `promised` is capacity
    promised to admitted requests, `held` are replicas held for another request; `divider` counts this request.
    """
    views = [with_promised(view, promised[view.id]) if view.id in promised else view for view in views]
    division = divider.division(tenant, demand, views, now)
    reserved = division.is_shared and not divider.has_room(tenant, division, views)
    lanes = division.lanes.get(tenant.name)
    outside = 0 if lanes is None else tenant.prefill_outside(lanes)
    avoid = division.avoid if lanes is None else frozenset()
    paired = {view.id for view in servable(views)}
    allowed = {view.id for view in usable(views, demand, lanes, outside)}
    found = {}
    for view in views:
        need = demand.at(view)
        if view.id not in paired:
            reason = UNPAIRED
        elif not could_ever(view, need):
            reason = TOO_SMALL
        elif reserved:
            reason = RESERVED
        elif reason := obstacle(view, need, watermark):
            pass
        elif view.id not in allowed:
            reason = NOT_ITS_LANE
        elif view.id in held:
            reason = HELD
        elif has_long_backlog(view):
            reason = BACKLOG
        elif view.id in avoid:
            reason = OTHERS_LANE
        found[view.id] = reason
    return found
