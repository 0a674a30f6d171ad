"""What most policies share: every unit gets a value that says how good it is, and the least one wins."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from routing.contracts.policy import Decision, ReplicaView, Report, RouteRequest, Score
from routing.contracts.units import Unit, units


class Ranking(msgspec.Struct, frozen=True):
    """What a policy makes of the units, by their places.

    `values` are compared from left to right; None leaves a unit out, and `excluded` says why. At least one has a
    value. `reason` is why the best one is taken, unless `reasons` has another for it.
    """

    values: Sequence[tuple[float, ...] | None]
    reason: str
    reasons: Mapping[int, str] = {}
    excluded: Mapping[int, str] = {}


class RankingPolicy:
    """Takes the unit of the least value; equal ones in turn, so that workers do not all start with the first."""

    uses_prefixes: ClassVar[bool] = False
    #: The names of a value's parts.
    measures: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self._turn = 0

    def rank(self, found: Sequence[Unit], request: RouteRequest) -> Ranking:
        """What every unit is worth to the request. Changes nothing."""
        raise NotImplementedError

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """The unit of the least value. Raises NoCandidate."""
        found = units(candidates)
        return self.choose(found, self.rank(found, request))

    def choose(self, found: Sequence[Unit], ranking: Ranking) -> Decision:
        """The best of a ranking."""
        least: tuple[float, ...] | None = None
        tied: list[int] = []
        for place, value in enumerate(ranking.values):
            if value is None:
                continue
            if least is None or value < least:
                least, tied = value, [place]
            elif value == least:
                tied.append(place)
        self._turn += 1
        place = tied[self._turn % len(tied)]
        return found[place].decision(ranking.reasons.get(place, ranking.reason))

    def observe(self, report: Report) -> None:
        """Nothing is learned."""

    def explain(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> list[Score]:
        """Every unit with the parts of its value; those that are left out come last."""
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
