"""DeepFlow's Algorithm 1: phases choose the group, then locality while the group's load is even, else least load."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import msgspec

from routing.contracts.heatmap import Heatmap
from routing.contracts.policy import Report, RouteRequest
from routing.contracts.units import Unit
from routing.policies.balance import Balance
from routing.policies.measures import PRESSURE, pressure
from routing.policies.phases import Phases
from routing.policies.prefix import worth
from routing.policies.ranking import Ranking, RankingPolicy

#: Waiting prompt tokens beyond its fair share up to which a replica leaves the group balanced: one step of an engine.
#: The algorithm checks that before it looks at prefixes, so what a match would save is not known yet.
UNEVEN_TOKENS: Final = 8192


class Combined(RankingPolicy):
    """PD-aware, then locality-aware or load-aware; of several holders of a longest prefix the least loaded wins.

    A match of no more than a system prompt that all share counts as none: it would send everything to one replica.
    Unlike in the paper the groups are compared by the units that they would use and by the load there
    (routing/policies/phases.py); in a fleet of one shape that is the same. A fleet of one group needs no heatmap.
    """

    uses_prefixes: ClassVar[bool] = True
    measures: ClassVar[tuple[str, ...]] = ("tokens_to_compute", *PRESSURE)

    def __init__(self, heatmap: Heatmap | None) -> None:
        super().__init__()
        self._phases = Phases(heatmap)

    def observe(self, report: Report) -> None:
        """Learn the replicas' speed."""
        self._phases.observe(report)

    def rank(self, found: Sequence[Unit], request: RouteRequest) -> Ranking:
        """Rank the preferred group by what is left to compute, or by pressure alone."""
        whole = [place for place, unit in enumerate(found) if unit.prefill is None]
        pairs = [place for place, unit in enumerate(found) if unit.prefill is not None]
        one, two = self._rank_group(found, whole, request), self._rank_group(found, pairs, request)
        preference = self._phases.prefer(one.best(found), two.best(found), request)
        taken, left = (two, one) if preference.pair else (one, two)
        values: list[tuple[float, ...] | None] = [None] * len(found)
        for place, value in taken.values.items():
            values[place] = value
        reason = f"{preference.reason}; {taken.reason}"
        return Ranking(values, reason, excluded=dict.fromkeys(left.values, preference.reason))

    def _rank_group(self, found: Sequence[Unit], places: Sequence[int], request: RouteRequest) -> "_Group":
        """Rank by locality while the group is balanced, else by load."""
        balance = Balance([found[place] for place in places])
        balanced = not any(balance.overloaded(found[place], UNEVEN_TOKENS) for place in places)
        prompt = request.prompt_tokens
        values: dict[int, tuple[float, ...]] = {}
        for place in places:
            unit = found[place]
            held = request.cached.get(unit.entry.id, 0) if balanced else 0
            values[place] = (float(prompt - held if worth(held, prompt) else prompt), *pressure(unit.view))
        return _Group(values, "balanced, longest prefix" if balanced else "unbalanced, least loaded")


class _Group(msgspec.Struct, frozen=True):
    """One group's units by index, their values, and how they were ranked."""

    values: Mapping[int, tuple[float, ...]]
    reason: str

    def best(self, found: Sequence[Unit]) -> Unit | None:
        """Return the unit that the group would use; None where the group is empty."""
        values = self.values
        return found[min(values, key=values.__getitem__)] if values else None
