"""Round robin: every unit in turn, whatever its shape or load."""

from collections.abc import Sequence
from typing import ClassVar

from routing.contracts.policy import Decision, ReplicaView, RouteRequest, Score, Unlearning
from routing.contracts.units import Unit, units


class RoundRobin(Unlearning):
    """Picks units in turn by id, so that replicas that come and go do not disturb the order."""

    uses_prefixes: ClassVar[bool] = False

    def __init__(self) -> None:
        self._last = ""

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """Return the unit whose id follows the last pick's, cyclically. Raises NoCandidate."""
        del request
        chosen = self._in_order(candidates)[0]
        self._last = chosen.view.id
        return chosen.decision("next in turn")

    def explain(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> list[Score]:
        """Score each unit by the number of others before it."""
        del request
        return [
            Score(unit.replica.id, unit.prefill.id if unit.prefill else None, float(place))
            for place, unit in enumerate(self._in_order(candidates))
        ]

    def _in_order(self, candidates: Sequence[ReplicaView]) -> list[Unit]:
        return sorted(units(candidates), key=lambda unit: (unit.view.id <= self._last, unit.view.id))
