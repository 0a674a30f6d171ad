"""What the admission queue asks of a fleet, and which requests have the same candidates there."""

from collections.abc import Callable, Sequence
from typing import Protocol

from routing.contracts.policy import ReplicaView, RouteRequest

#: What a replica must have for a request: features and an adapter.
Kind = tuple[int, str]
PLAIN: Kind = (0, "")


class Candidates(Protocol):
    """A fleet, as far as the admission queue knows it."""

    on_load: Callable[[], None]

    def candidates(self, exclude: Sequence[str] = (), needs: int = 0, adapter: str = "") -> Sequence[ReplicaView]:
        """The replicas that can take a request with these needs and adapter now, less the excluded ids."""
        ...


def kind_of(route: RouteRequest, everyone: Sequence[ReplicaView]) -> Kind:
    """What of a request's needs not all of these replicas have: requests of one kind have the same candidates."""
    needs = route.needs
    if needs:
        for view in everyone:
            if needs & ~view.features:
                break
        else:
            needs = 0
    return needs, route.adapter
