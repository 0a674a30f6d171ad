"""Learns which tier of pools is best at which concurrency, from the engines' seconds per token.

Single requests to an otherwise empty tier would all find it fast. So a tier is tried with all requests for a while: an
episode, of which only the second half counts, when the tier bears the load by itself.
"""

import random
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Final

from protos.types import Timing

#: Share of episodes that try another tier than the best known one.
EXPLORED: Final = 0.1
#: An episode is twice the concurrency, so that the tier gets the whole load, and at least this many requests.
SHORTEST_EPISODE: Final = 32
#: Ended requests after which a tier's time is known, and the most episodes spent on getting there.
ENOUGH, MOST_TRIES = 8, 4
#: Ratio of times below which another tier takes over, so that noise does not make it flap.
ADVANTAGE: Final = 0.95
#: Factor on the sums with each further request.
MEMORY: Final = 0.99
#: Bound on remembered requests in flight.
MOST_ROUTED: Final = 65_536


class _Record:
    """Fading sums of one tier's times at one band of concurrency."""

    __slots__ = ("ended", "seconds", "tokens", "tries")

    def __init__(self) -> None:
        self.ended = 0
        self.tries = 0
        self.seconds = 0.0
        self.tokens = 0.0

    @property
    def unknown(self) -> bool:
        return self.ended < ENOUGH

    @property
    def per_token(self) -> float:
        return self.seconds / self.tokens if self.tokens else float("inf")


class _Band:
    """One band of concurrency: the current episode's tier and the records of all tiers."""

    __slots__ = ("left", "length", "records", "tier")

    def __init__(self) -> None:
        self.tier: Hashable = None
        self.left = self.length = 0
        self.records: dict[Hashable, _Record] = {}


class TierLearner:
    """Learns the best tier per band of concurrency (powers of two). Tiers may be any hashable keys."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._bands: dict[int, _Band] = {}
        #: Request id -> the record that its time is added to.
        self._routed: OrderedDict[str, _Record] = OrderedDict()

    def choose(self, concurrency: int, tiers: Sequence[Hashable], default: int) -> int:
        """Return the index of the current episode's tier; the default where there was no episode yet."""
        band = self._bands.get(concurrency.bit_length())
        return tiers.index(band.tier) if band is not None and band.tier in tiers else default

    def routed(self, request_id: str, concurrency: int, tiers: Sequence[Hashable], tier: int) -> None:
        """Note a request sent to `tier`; begin the next episode when it was the last of one."""
        band = self._bands.setdefault(concurrency.bit_length(), _Band())
        if band.tier not in tiers:
            self._begin(band, tiers[tier], concurrency)
        if tiers[tier] == band.tier and band.left <= band.length // 2:
            self._routed[request_id] = band.records[band.tier]
            if len(self._routed) > MOST_ROUTED:
                self._routed.popitem(last=False)
        band.left -= 1
        if band.left <= 0:
            self._begin(band, self._next(band, tiers), concurrency)

    def ended(self, request_id: str, output_tokens: int, timing: Timing) -> None:
        """Learn a request's time by the engine's clock; one without a token is ignored."""
        record = self._routed.pop(request_id, None)
        seconds = (timing.queue_us + timing.prefill_us + timing.decode_us) * 1e-6
        if record is not None and output_tokens > 0 and seconds > 0.0:
            record.ended += 1
            record.seconds = MEMORY * record.seconds + seconds
            record.tokens = MEMORY * record.tokens + output_tokens

    def per_token(self, concurrency: int, tier: Hashable) -> float | None:
        """Return the mean seconds per output token at such a concurrency; None: unknown."""
        band = self._bands.get(concurrency.bit_length())
        record = band.records.get(tier) if band else None
        return record.per_token if record and record.tokens else None

    def _begin(self, band: _Band, tier: Hashable, concurrency: int) -> None:
        band.tier = tier
        band.left = band.length = max(SHORTEST_EPISODE, 2 * concurrency)
        band.records.setdefault(tier, _Record()).tries += 1

    def _next(self, band: _Band, tiers: Sequence[Hashable]) -> Hashable:
        records = {tier: band.records.get(tier) or _Record() for tier in tiers}
        for tier, record in records.items():
            if record.unknown and record.tries < MOST_TRIES:
                return tier
        best = min(tiers, key=lambda tier: records[tier].per_token)
        others = [tier for tier in tiers if tier != best]
        if others and self._rng.random() < EXPLORED:
            return self._rng.choice(others)
        holder = records.get(band.tier)
        if holder is not None and records[best].per_token > ADVANTAGE * holder.per_token:
            return band.tier
        return best
