"""Least load: the replica with the least work for its size."""

from collections.abc import Sequence
from typing import ClassVar, Final

from protos.types import Role
from routing.contracts.policy import Decision, ReplicaView, RouteRequest
from routing.contracts.units import Unit
from routing.policies.measures import PRESSURE, pressure
from routing.policies.ranking import Ranking, RankingPolicy

REASON: Final = "least loaded"


class LeastLoad(RankingPolicy):
    """Picks the unit under the least pressure."""

    measures: ClassVar[tuple[str, ...]] = PRESSURE

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """Return the unit of the least value, which needs no measuring where there is only one. Raises NoCandidate."""
        if len(candidates) == 1 and candidates[0].role is Role.BOTH:
            return Decision(candidates[0], None, REASON)
        return super().pick(request, candidates)

    def rank(self, found: Sequence[Unit], request: RouteRequest) -> Ranking:
        """Rank by pressure, whatever the request."""
        del request
        return Ranking([pressure(unit.view) for unit in found], REASON)
