"""The base of policies that rank units: each unit gets a value, and the least one wins."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from routing.contracts.policy import Decision, ReplicaView, RouteRequest, Score, Unlearning
from routing.contracts.units import Unit, units


class Ranking(msgspec.Struct, frozen=True):
    """A policy's values of the units, by index.

    `values` are compared from left to right; None leaves a unit out, and `excluded` says why. At least one unit has a
    value. `reason` is why the best one is taken, unless `reasons` has another for it.
    """

    values: Sequence[tuple[float, ...] | None]
    reason: str
    reasons: Mapping[int, str] = {}
    excluded: Mapping[int, str] = {}


class RankingPolicy(Unlearning):
    """Picks the unit of the least value; equal ones in turn, so that workers do not all start with the first."""

    uses_prefixes: ClassVar[bool] = False
    #: Names of a value's parts.
    measures: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self._turn = 0

    def rank(self, found: Sequence[Unit], request: RouteRequest) -> Ranking:
        """Return the values of all units for the request. Changes nothing."""
        raise NotImplementedError

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """Return the unit of the least value. Raises NoCandidate."""
        found = units(candidates)
        return self.choose(found, self.rank(found, request))

    def choose(self, found: Sequence[Unit], ranking: Ranking) -> Decision:
        """Return the decision for the best unit of a ranking."""
        values = ranking.values
        least = min([value for value in values if value is not None])
        self._turn += 1
        if values.count(least) == 1:
            place = values.index(least)
        else:
            tied = [place for place, value in enumerate(values) if value == least]
            place = tied[self._turn % len(tied)]
        return found[place].decision(ranking.reasons.get(place, ranking.reason))

    def explain(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> list[Score]:
        """Return every unit with the parts of its value; those that are left out come last."""
        found = units(candidates)
        ranking = self.rank(found, request)
        scored = []
        for place, (unit, value) in enumerate(zip(found, ranking.values, strict=True)):
            prefill = unit.prefill.id if unit.prefill else None
            if value is None:
                score = Score(unit.replica.id, prefill, float("inf"), excluded=ranking.excluded.get(place, ""))
            else:
                score = Score(unit.replica.id, prefill, value[0], dict(zip(self.measures, value, strict=True)))
            scored.append((value is None, value or (), score))
        return [score for *_, score in sorted(scored, key=lambda entry: entry[:2])]
