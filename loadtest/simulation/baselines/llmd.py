"""llm-d's inference scheduler, as a baseline: filters, then weighted scorers, then a picker.

Scores are from 0 to 1: queue (weight 2), 1 for the shortest queue among the candidates and 0 for the longest; KV use
(weight 2), the share of the cache that is free; prefix (weight 3), the share of the prompt that is cached. The highest
sum wins. Before that a filter keeps only the replicas that hold at least 0.8 of the prompt, if there are any, unless
the fastest of them would take over 18 s longer to the first token than the fastest of all.

The TTFT in that filter comes from the waiting prompts and learned step times. Equal scores are taken in turn. Its
saturation detector sheds requests, which is not a policy's task here.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from routing.contracts.policy import Left, Report, RouteRequest, Stepped
from routing.contracts.units import Unit
from routing.estimates.replica_class import ReplicaClasses
from routing.policies.measures import backlog, kv_use
from routing.policies.ranking import Ranking, RankingPolicy

QUEUE_WEIGHT, KV_WEIGHT, PREFIX_WEIGHT = 2.0, 2.0, 3.0
#: Share of the prompt from which on a match is sticky, unless it costs this many more seconds of TTFT.
STICKY_SHARE: Final = 0.8
STICKY_SECONDS: Final = 18.0


class Llmd(RankingPolicy):
    """Picks the highest weighted score (as the least negative)."""

    uses_prefixes: ClassVar[bool] = True
    measures: ClassVar[tuple[str, ...]] = ("negative_score", "queue_score", "kv_score", "prefix_score")

    def __init__(self) -> None:
        super().__init__()
        self._classes = ReplicaClasses()

    def observe(self, report: Report) -> None:
        """Learn the replicas' prefill speed."""
        if isinstance(report, Stepped):
            self._classes.of(report.view).learn(report.work)
        elif isinstance(report, Left):
            self._classes.left(report.replica_id)

    def rank(self, found: Sequence[Unit], request: RouteRequest) -> Ranking:
        """Rank by score, among the sticky units if there are any."""
        matches = [request.cached.get(unit.entry.id, 0) / max(request.prompt_tokens, 1) for unit in found]
        sticky = {place for place, match in enumerate(matches) if match >= STICKY_SHARE}
        reason = "highest score"
        if sticky and not self._too_late(found, sticky, request):
            reason = "highest score among sticky ones"
        else:
            sticky = set(range(len(found)))
        queues = [unit.view.load.waiting + unit.view.sent for unit in found]
        shortest = min(queues[place] for place in sticky)
        longest = max(queues[place] for place in sticky)
        values: list[tuple[float, ...] | None] = []
        for place, unit in enumerate(found):
            if place not in sticky:
                values.append(None)
                continue
            queue = (longest - queues[place]) / (longest - shortest) if longest > shortest else 1.0
            kv = max(0.0, 1.0 - kv_use(unit.view))
            match = matches[place]
            score = QUEUE_WEIGHT * queue + KV_WEIGHT * kv + PREFIX_WEIGHT * match
            values.append((-score, queue, kv, match))
        outside = (place for place, value in enumerate(values) if value is None)
        return Ranking(values, reason, excluded=dict.fromkeys(outside, "others hold nearly all of the prompt"))

    def _too_late(self, found: Sequence[Unit], sticky: set[int], request: RouteRequest) -> bool:
        """Whether stickiness costs more than it may."""
        seconds = [self._ttft(unit, request) for unit in found]
        return min(seconds[place] for place in sticky) - min(seconds) > STICKY_SECONDS

    def _ttft(self, unit: Unit, request: RouteRequest) -> float:
        entry = unit.entry
        speed = self._classes.of(entry)
        tokens = backlog(entry) + request.prompt_tokens - request.cached.get(entry.id, 0)
        return speed.token_seconds * tokens + speed.pair_seconds * entry.load.prefill_pairs
