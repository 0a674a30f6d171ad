"""ScaleLLM's tiers by concurrency: few wide replicas for few sequences in flight, many narrow ones for many.

"ScaleLLM" (section 6): below 64 concurrent requests route to nodes with few replicas of high tensor parallelism, from
64 on to those with many replicas of low tensor parallelism. Here there may be any number of tiers, and the best tier
for each concurrency may be learned.
"""

import random
from collections.abc import Sequence
from typing import ClassVar, Final

from routing.contracts.policy import Decision, Ended, Left, ReplicaView, Report, Routed, RouteRequest, Stepped
from routing.contracts.policy_settings import CONCURRENCY_THRESHOLD, Tier
from routing.contracts.units import Unit, units
from routing.policies.census import Census
from routing.policies.measures import PRESSURE, backlog, pressure, sequences
from routing.policies.ranking import Ranking, RankingPolicy
from routing.policies.tier_learner import TierLearner

#: Hysteresis: a tier is left downwards only at this share below its bound, so that it does not flap.
BAND: Final = 0.1


class Concurrency(RankingPolicy):
    """The least loaded unit of the tier that the model's sequences in flight call for.

    A tier without candidates is replaced by the next one, and a full tier shares its requests with all others: the
    paper has one set of GPUs in one shape or the other, but a fleet of several shapes should not let most of them idle.
    Each worker learns from what it routed itself.
    """

    measures: ClassVar[tuple[str, ...]] = PRESSURE

    def __init__(
        self,
        tiers: Sequence[Tier] = (),
        threshold: float = CONCURRENCY_THRESHOLD,
        learner_rng: random.Random | None = None,
    ) -> None:
        """With a `learner_rng` the tiers' bounds are ignored and the best tier is learned."""
        super().__init__()
        self._given = tuple(tiers)
        self._threshold = threshold
        self._learner = TierLearner(learner_rng) if learner_rng is not None else None
        self._census = Census()
        self._tier = 0
        self._concurrency = 0
        self._tiers = self._given

    def pick(self, request: RouteRequest, candidates: Sequence[ReplicaView]) -> Decision:
        """Return the least loaded unit of the tier. Raises NoCandidate."""
        found = units(candidates)
        views = [view for unit in found for view in _views(unit)]
        self._census.note(views, request.now)
        fleet = self._census.with_candidates(views)
        self._tiers = self._tiers_of(fleet)
        self._concurrency = sum(map(sequences, fleet))
        self._tier = self._tier_for(self._concurrency, self._tiers)
        return self.choose(found, _within(found, self._tiers, self._tier))

    def observe(self, report: Report) -> None:
        """Follow loads and, where tiers are learned, learn how long requests took."""
        if isinstance(report, Stepped):
            self._census.refresh(report.view)
        elif isinstance(report, Left):
            self._census.left(report.replica_id)
        elif self._learner is None:
            return
        elif isinstance(report, Routed):
            place = _tier_of(report.decision, self._tiers)
            if place is not None:
                keys = [tier.pools for tier in self._tiers]
                self._learner.routed(report.request.request_id, self._concurrency, keys, place)
        elif isinstance(report, Ended):
            self._learner.ended(report.request.request_id, report.output_tokens, report.timing)

    def rank(self, found: Sequence[Unit], request: RouteRequest) -> Ranking:
        """Rank the tier's units by pressure; the others are left out."""
        del request
        fleet = self._census.with_candidates([view for unit in found for view in _views(unit)])
        tiers = self._tiers_of(fleet)
        return _within(found, tiers, self._tier_for(sum(map(sequences, fleet)), tiers))

    def _tier_for(self, concurrency: int, tiers: Sequence[Tier]) -> int:
        """Return the tier of a concurrency, with hysteresis around the current tier. Changes nothing."""
        place = next((place for place, tier in enumerate(tiers) if concurrency < tier.below), len(tiers) - 1)
        if self._learner is not None:
            default = 0 if concurrency < self._threshold else len(tiers) - 1
            return self._learner.choose(concurrency, [tier.pools for tier in tiers], default)
        now = min(self._tier, len(tiers) - 1)
        while place < now and concurrency >= (1 - BAND) * tiers[now - 1].below:
            return now
        return place

    def _tiers_of(self, fleet: Sequence[ReplicaView]) -> tuple[Tier, ...]:
        """Return the configured tiers; else the widest replicas, then the narrowest; to learn, one tier per width."""
        if self._given:
            return self._given
        widths: dict[int, set[str]] = {}
        for pool, shape in {view.pool: view.shape for view in fleet}.items():
            widths.setdefault(shape.gpus, set()).add(pool)
        if self._learner is None and len(widths) > 1:
            wide, narrow = max(widths), min(widths)
            return (Tier(frozenset(widths[wide]), self._threshold), Tier(frozenset(widths[narrow])))
        return tuple(Tier(frozenset(widths[width])) for width in sorted(widths, reverse=True))


def _views(unit: Unit) -> tuple[ReplicaView, ...]:
    return (unit.replica,) if unit.prefill is None else (unit.replica, unit.prefill)


def _full(view: ReplicaView) -> bool:
    """Whether the next request has to wait: for room, or for a whole step's prompts."""
    return view.load.waiting > 0 or (view.max_num_tokens > 0 and backlog(view) >= view.max_num_tokens)


def _within(found: Sequence[Unit], tiers: Sequence[Tier], tier: int) -> Ranking:
    inside = _first_present(found, tiers, tier)
    reason = f"tier {tier + 1} of {len(tiers)}"
    if all(_full(found[place].view) for place in inside):
        return Ranking([pressure(unit.view) for unit in found], f"{reason} is full")
    values: list[tuple[float, ...] | None] = [None] * len(found)
    for place in inside:
        values[place] = pressure(found[place].view)
    outside = [place for place, value in enumerate(values) if value is None]
    return Ranking(values, reason, excluded=dict.fromkeys(outside, f"not in {reason}"))


def _first_present(found: Sequence[Unit], tiers: Sequence[Tier], tier: int) -> list[int]:
    """Return the indices of a tier's units; where it has none, those of the nearest tier; of all where none has."""
    for place in sorted(range(len(tiers)), key=lambda place: (abs(place - tier), place)):
        pools = tiers[place].pools
        inside = [at for at, unit in enumerate(found) if unit.replica.pool in pools or unit.entry.pool in pools]
        if inside:
            return inside
    return list(range(len(found)))


def _tier_of(decision: Decision, tiers: Sequence[Tier]) -> int | None:
    pools = {decision.replica.pool, decision.entry.pool}
    return next((place for place, tier in enumerate(tiers) if pools & tier.pools), None)
