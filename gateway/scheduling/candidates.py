"""The fleet as the admission queue sees it, and kinds of requests with the same candidate replicas."""

from collections.abc import Callable, Sequence
from typing import Protocol

from routing.contracts.policy import ReplicaView, RouteRequest

#: Features and adapter that a replica must have for a request.
Kind = tuple[int, str]
PLAIN: Kind = (0, "")


class Candidates(Protocol):
    """The candidate replicas of a fleet."""

    on_load: Callable[[], None]
    #: KV tokens that the narrowest and the widest shape hold which its replicas can take; 0: none changes its shape.
    narrow_tokens: int
    wide_tokens: int

    @property
    def awaits_member(self) -> bool:
        """Whether a replica that is parked in its host group may serve again before long."""
        ...

    def candidates(self, exclude: Sequence[str] = (), needs: int = 0, adapter: str = "") -> Sequence[ReplicaView]:
        """The replicas that can take a request with these needs and adapter now, less the excluded ids."""
        ...


def kind_of(route: RouteRequest, all_views: Sequence[ReplicaView]) -> Kind:
    """The needs of a request that not all replicas meet: requests of one kind have the same candidates."""
    needs = route.needs
    if needs:
        for view in all_views:
            if needs & ~view.features:
                break
        else:
            needs = 0
    return needs, route.adapter
