"""Requests that only a wide replica of a host group holds: they wait for one, and hold up nobody meanwhile. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final

from gateway.scheduling.admission import AdmissionRequest, PendingRequest, demand_of
from gateway.scheduling.candidates import Candidates, Kind, kind_of
from gateway.scheduling.capacity import Demand, could_ever
from gateway.scheduling.waiter import Waiter
from routing.contracts.policy import ReplicaView

#: The kind of requests that the narrowest replicas of host groups do not hold.
WIDE: Final = "wide"


def queue_kind(request: AdmissionRequest, fleet: Candidates) -> Kind | str:
    """The kind of a request in the fair queue: what other kinds wait for must not hold it up."""
    views = fleet.candidates()
    if fleet.narrow_tokens and kv_needed(demand_of(request, request.route), views) > fleet.narrow_tokens:
        return WIDE
    return kind_of(request.route, views)


def fits_nowhere(pending: PendingRequest, views: Sequence[ReplicaView]) -> bool:
    """Whether none of these replicas could ever hold a request."""
    return not any(could_ever(view, pending.demand.at(view)) for view in views)


def awaits_width(pending: PendingRequest, fleet: Candidates) -> bool:
    """Whether a replica could hold a request that is too large for all there are, were its shape changed."""
    return bool(fleet.wide_tokens) and kv_needed(pending.demand, fleet.candidates()) <= fleet.wide_tokens


def long_waits(waiters: Iterable[Waiter], fleet: Candidates, over: int, now: float) -> list[tuple[int, float]]:
    """The KV tokens that waiting requests need which need more than `over`, each with the seconds it has waited."""
    views = fleet.candidates()
    needed = ((kv_needed(waiter.demand, views), now - waiter.since) for waiter in waiters)
    return [(tokens, seconds) for tokens, seconds in needed if tokens > over]


def late_message(waiter: Waiter) -> str:
    """Say why a request that has waited for as long as it may is not admitted."""
    wide = waiter.entry.kind == WIDE
    what = "No replica had room for a request of this length" if wide else "The model stayed at its capacity"
    return f"{what} for as long as this request may wait."


def kv_needed(demand: Demand, views: Sequence[ReplicaView]) -> int:
    """The KV tokens that any of these replicas must hold for a request that it has cached nothing of."""
    return max((demand.whole.kv_at(view) for view in views[:1]), default=demand.whole.kv_tokens)
