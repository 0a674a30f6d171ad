"""NVIDIA Dynamo's KV router, as a baseline.

cost = 1.0 * max(0, active prefill + prompt - credit) + decode blocks, in KV blocks. Active prefill are prompt tokens
before the request, credit is the part of its prompt in the replica's GPU cache (weight 1.0), decode blocks are those of
all its unfinished sequences with the request's own. The least cost wins (temperature 0). The router expects a prompt's
blocks where it sent it (predict-on-route), which here the prefix directory does. For a pair the prefill part is the
prefill replica's and the decode blocks, without any credit, the decode replica's. A request with fewer than 2048 tokens
and less than 0.7 left to compute avoids pairs if possible (conditional disaggregation).

Dynamo breaks ties at random; here they are taken in turn. Blocks are not weighted by a replica's shape.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from routing.contracts.policy import RouteRequest
from routing.contracts.units import Unit
from routing.policies.measures import backlog, block_tokens
from routing.policies.phases import stays_local
from routing.policies.ranking import Ranking, RankingPolicy

#: Dynamo's overlap_score_weight.
PREFILL_WEIGHT: Final = 1.0


class DynamoKv(RankingPolicy):
    """Picks the unit of least cost in blocks."""

    uses_prefixes: ClassVar[bool] = True
    measures: ClassVar[tuple[str, ...]] = ("cost_blocks", "prefill_blocks", "decode_blocks")

    def rank(self, found: Sequence[Unit], request: RouteRequest) -> Ranking:
        """Rank by cost; pairs are left out where the prompt stays local."""
        prompt, cached = request.prompt_tokens, request.cached
        whole = [unit for unit in found if unit.prefill is None]
        held = max((cached.get(unit.entry.id, 0) for unit in whole), default=0)
        local = len(whole) < len(found) and bool(whole) and stays_local(prompt, held)
        values: list[tuple[float, ...] | None] = []
        excluded: dict[int, str] = {}
        for place, unit in enumerate(found):
            if local and unit.prefill is not None:
                values.append(None)
                excluded[place] = "short or cached prompt stays local"
                continue
            entry, replica = unit.entry, unit.replica
            prefill = max(0, backlog(entry) + prompt - cached.get(entry.id, 0)) / block_tokens(entry)
            context = replica.load.tokens_in_flight + replica.sent_kv_tokens + prompt
            decode = context / block_tokens(replica)
            values.append((PREFILL_WEIGHT * prefill + decode, prefill, decode))
        return Ranking(values, "least cost in blocks", excluded=excluded)
