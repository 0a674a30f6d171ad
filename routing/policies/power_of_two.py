"""Power of two choices: the less loaded of two random units; nearly as even as least load, less herding.

Mitzenmacher, "The power of two choices in randomized load balancing" (1996); SMG's policy of the same name.
"""

import random
from collections.abc import Sequence
from typing import ClassVar

from routing.contracts.policy import Decision, ReplicaView, RouteRequest
from routing.contracts.units import Unit, units
from routing.policies.measures import PRESSURE, pressure
from routing.policies.ranking import Ranking, RankingPolicy


class PowerOfTwo(RankingPolicy):
    """Picks the one of two random units under less pressure; of equal ones the first drawn."""

    measures: ClassVar[tuple[str, ...]] = PRESSURE

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """Draw two units and return the less loaded. Raises NoCandidate."""
        del request
        found = units(candidates)
        if len(found) == 1:
            return found[0].decision("only candidate")
        drawn, other = self._rng.sample(found, 2)
        chosen = other if pressure(other.view) < pressure(drawn.view) else drawn
        return chosen.decision("less loaded of two")

    def rank(self, found: Sequence[Unit], request: RouteRequest) -> Ranking:
        """Rank every unit by pressure: the first wins against any, the last against none."""
        del request
        return Ranking([pressure(unit.view) for unit in found], "less loaded of two")
