"""Every replica in turn, whatever its shape or load."""

from collections.abc import Sequence

from routing.policy import Decision, ReplicaView, RouteRequest


class RoundRobin:
    """Remembers the last pick by id, so that replicas that come and go do not disturb the order."""

    def __init__(self) -> None:
        self._last = ""

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """The candidate whose id follows the last pick's, cyclically."""
        del request
        following = [view for view in candidates if view.id > self._last]
        chosen = min(following or candidates, key=lambda view: view.id)
        self._last = chosen.id
        return Decision(chosen)
