"""Chooses between prefill/decode pairs and colocated replicas by heatmap and load (routing/policies/phases.py)."""

from collections.abc import Sequence
from typing import ClassVar

from routing.contracts.heatmap import Heatmap
from routing.contracts.policy import Report, RouteRequest
from routing.contracts.units import Unit
from routing.policies.phases import Phases
from routing.policies.ranking import Ranking, RankingPolicy


class PdHeatmap(RankingPolicy):
    """Picks the fastest unit of the preferred group."""

    uses_prefixes: ClassVar[bool] = True  # a well-cached prompt stays where it is
    measures: ClassVar[tuple[str, ...]] = ("seconds", "delay")

    def __init__(self, heatmap: Heatmap | None) -> None:
        super().__init__()
        self._phases = Phases(heatmap)

    def observe(self, report: Report) -> None:
        """Learn the replicas' speed."""
        self._phases.observe(report)

    def rank(self, found: Sequence[Unit], request: RouteRequest) -> Ranking:
        """Rank the preferred group by the seconds that the request would take."""
        estimates = [self._phases.estimate(unit, request) for unit in found]
        quickest = [
            min(
                (place for place, unit in enumerate(found) if (unit.prefill is not None) is pair),
                key=lambda place: estimates[place].seconds,
                default=None,
            )
            for pair in (False, True)
        ]
        whole, pair = (None if place is None else found[place] for place in quickest)
        preference = self._phases.prefer(whole, pair, request)
        values: list[tuple[float, ...] | None] = []
        excluded: dict[int, str] = {}
        for place, (unit, estimate) in enumerate(zip(found, estimates, strict=True)):
            if (unit.prefill is not None) is preference.pair:
                values.append((estimate.seconds, estimate.delay))
            else:
                values.append(None)
                excluded[place] = (
                    f"{preference.reason} ({estimate.seconds:.3f} s, the map gives pairs {preference.bonus:+.3f} s)"
                )
        return Ranking(values, preference.reason, excluded=excluded)
