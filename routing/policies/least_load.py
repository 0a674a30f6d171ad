"""Least load: the replica with the least work for its size."""

from collections.abc import Sequence
from typing import ClassVar

from routing.contracts.policy import RouteRequest
from routing.contracts.units import Unit
from routing.policies.measures import PRESSURE, pressure
from routing.policies.ranking import Ranking, RankingPolicy


class LeastLoad(RankingPolicy):
    """Picks the unit under the least pressure."""

    measures: ClassVar[tuple[str, ...]] = PRESSURE

    def rank(self, found: Sequence[Unit], request: RouteRequest) -> Ranking:
        """Rank by pressure, whatever the request."""
        del request
        return Ranking([pressure(unit.view) for unit in found], "least loaded")
