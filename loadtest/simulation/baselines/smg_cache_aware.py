"""SGLang Model Gateway's cache_aware policy, as a baseline.

A request whose match in the tree of routed prompts is longer than 0.3 of it goes to the replica that was sent the
match; any other goes to the least loaded. A holder whose load is above 1.5 times the mean and more than 64 above it is
skipped for this request, which goes to the least loaded instead and is inserted there. Load is the number of requests,
whatever the replica's shape. The tree is the gateway's own and does not learn of evictions.

Choices beyond the published rule: loads are those reported by engines, over all workers; of several holders the least
loaded is taken; equal ones are taken in turn.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from loadtest.simulation.baselines.prompt_tree import PromptTree
from routing.contracts.policy import Left, Report, Routed, RouteRequest
from routing.contracts.units import Unit
from routing.policies.measures import sequences
from routing.policies.ranking import Ranking, RankingPolicy

#: SMG's defaults: cache_threshold, balance_rel_threshold, balance_abs_threshold.
MATCH_SHARE: Final = 0.3
LOAD_FACTOR: Final = 1.5
LOAD_MARGIN: Final = 64


class SmgCacheAware(RankingPolicy):
    """Picks by its own prefix tree, then by load."""

    uses_prefixes: ClassVar[bool] = True
    measures: ClassVar[tuple[str, ...]] = ("unmatched_share", "requests")

    def __init__(self, tree: PromptTree) -> None:
        super().__init__()
        self._tree = tree

    def observe(self, report: Report) -> None:
        """Insert a prompt into the tree when it is sent."""
        if isinstance(report, Routed):
            self._tree.insert(report.request.chain, report.decision.entry.id)
        elif isinstance(report, Left):
            self._tree.forget(report.replica_id)

    def rank(self, found: Sequence[Unit], request: RouteRequest) -> Ranking:
        """Rank the holders of the match by load, then all others by load."""
        loads = [float(sequences(unit.view)) for unit in found]
        matched, holders = self._tree.match(request.chain)
        share = matched / len(request.chain) if request.chain else 0.0
        values: list[tuple[float, ...]] = [(1.0, load) for load in loads]
        if share <= MATCH_SHARE:
            return Ranking(values, "no match, least loaded")
        mean = sum(loads) / len(loads)
        reason = "holder is gone, least loaded"
        reasons: dict[int, str] = {}
        for place, (unit, load) in enumerate(zip(found, loads, strict=True)):
            if unit.entry.id in holders:
                if load > LOAD_FACTOR * mean and load - mean > LOAD_MARGIN:
                    reason = "holder overloaded, least loaded"
                else:
                    values[place] = (1.0 - share, load)
                    reasons[place] = "matched"
        return Ranking(values, reason, reasons)
