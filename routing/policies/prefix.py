"""Prefix locality: a request goes where most of its prompt is cached, unless that replica is overloaded.

An overloaded holder is skipped per request (SMG's rule; its older one switched locality off for all). Where such a
request goes instead the prefix is computed again and expected from then on: hot prefixes spread over as many replicas
as they need.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from routing.contracts.policy import RouteRequest
from routing.contracts.units import Unit
from routing.policies.balance import Balance
from routing.policies.measures import PRESSURE, pressure
from routing.policies.ranking import Ranking, RankingPolicy

#: A match is worth it from this share of the prompt on (SMG's cache threshold), or from this many tokens on, about
#: what a narrow replica computes in the time of some decode steps.
WORTH_SHARE: Final = 0.3
WORTH_TOKENS: Final = 1024


class Prefix(RankingPolicy):
    """Picks the unit with the fewest tokens to compute among those not overloaded, then the least pressure."""

    uses_prefixes: ClassVar[bool] = True
    measures: ClassVar[tuple[str, ...]] = ("tokens_to_compute", *PRESSURE)

    def rank(self, found: Sequence[Unit], request: RouteRequest) -> Ranking:
        """Rank by tokens to compute; cached tokens count where they are worth it and the holder is not overloaded."""
        prompt, cached = request.prompt_tokens, request.cached
        values: list[tuple[float, ...]] = []
        reasons: dict[int, str] = {}
        reason = "no prefix, least loaded"
        balance = Balance(found) if cached else None
        for place, unit in enumerate(found):
            held = cached.get(unit.entry.id, 0)
            if balance is None or not worth(held, prompt):
                held = 0
            elif balance.overloaded(unit, held):
                held = 0
                reason = "holder overloaded, least loaded"
            else:
                reasons[place] = "longest prefix"
            values.append((float(prompt - held), *pressure(unit.view)))
        return Ranking(values, reason, reasons)


def worth(held: int, prompt_tokens: int) -> bool:
    """Whether a match is long enough to decide by."""
    return held >= WORTH_TOKENS or held > WORTH_SHARE * prompt_tokens
