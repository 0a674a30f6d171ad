"""Which endpoints are in this gateway's zone, by the zones and hints of EndpointSlices. Pure, but for the variable."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.kubernetes.objects import Endpoint

#: Names the zone that this process runs in; unset or empty: no zone is preferred.
ZONE_VARIABLE: Final = "PENSTOCK_ZONE"


def own_zone() -> str:
    """The zone that this process runs in; empty: it is not known."""
    return os.environ.get(ZONE_VARIABLE, "").strip()


def zones_for(endpoint: "Endpoint") -> frozenset[str]:
    """The zones whose clients an endpoint is meant for; empty: nothing says so."""
    hints = endpoint.hints
    return frozenset(zone.name for zone in (hints.for_zones or ()) if zone.name) if hints is not None else frozenset()


def nearness(endpoints: "Iterable[Endpoint]", zone: str) -> list[bool | None]:
    """Whether each of a service's endpoints is for clients of a zone, or in it; None: that is not known.

    Hints count only where all endpoints have some, as for kube-proxy; else it is the endpoint's own zone that counts.
    """
    found = list(endpoints)
    hinted = [zones_for(one) for one in found]
    if all(hinted):
        return [zone in zones for zones in hinted]
    return [one.zone == zone if one.zone else None for one in found]
