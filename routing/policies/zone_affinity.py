"""Zone affinity: requests stay in the gateway's zone, as far as replicas there have room for them.

Between zones a token takes longer and costs money, and a zone may be cut off. That is worth less than a free slot, or a
prompt that is cached already, so it is a preference: a request goes to a replica of the same zone, unless each of
these is much busier than the least busy replica of its role; replicas elsewhere that hold a prefix worth going for stay
in the choice, and so do those whose zone is not known.
"""

from collections.abc import Callable, Sequence
from math import inf

import msgspec

from protos.types import Role
from routing.contracts.policy import ReplicaView, RouteRequest, RoutingPolicy
from routing.policies.busyness import busyness, spill_bound
from routing.policies.narrowed_policy import NarrowedPolicy
from routing.policies.prefix import worth

#: The reason shown for candidates that are left out.
ELSEWHERE = "a replica of this zone takes it"


class Zones(msgspec.Struct, frozen=True):
    """The ids of the replicas in the gateway's zone, and of those that are known to be in others."""

    near: frozenset[str] = frozenset()
    far: frozenset[str] = frozenset()


def nearest(views: Sequence[ReplicaView], request: RouteRequest, zones: Zones) -> Sequence[ReplicaView]:
    """Return the views without those of other zones, where that leaves what can serve the request well."""
    if not zones.near or not zones.far:
        return views
    here: list[ReplicaView] = []
    for role in Role:
        peers = [view for view in views if view.role is role]
        if peers:
            bound = spill_bound(peers)
            here += [view for view in peers if view.id in zones.near and busyness(view) <= bound < inf]
    roles = {view.role for view in here}
    if Role.BOTH not in roles and not {Role.PREFILL, Role.DECODE} <= roles:
        return views
    cached, prompt = request.cached, request.prompt_tokens
    held = max(cached.get(view.id, 0) for view in here)
    return [view for view in views if view.id not in zones.far or worth(cached.get(view.id, 0) - held, prompt)]


class ZoneAffinity(NarrowedPolicy):
    """Wraps the policy of a model with replicas in zones: passes it only those that `nearest` returns."""

    def __init__(self, policy: RoutingPolicy, zones: Callable[[], Zones]) -> None:
        """`zones` gives those of now."""
        super().__init__(policy, ELSEWHERE)
        self._zones = zones

    def _near(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Sequence[ReplicaView]:
        return nearest(candidates, request, self._zones())
