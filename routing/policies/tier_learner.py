"""Which tier of pools serves best at which concurrency, learned from how long the engines took for each token.

Requests routed one by one to a tier that is otherwise empty would all find it fast. So a tier is tried with everything
for a while: an episode, of which only the second half counts, when the tier bears the load by itself.
"""

import random
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Final

from protos.types import Timing

#: The share of episodes that try another tier than the best known one.
EXPLORED: Final = 0.1
#: An episode is twice the concurrency, so that the tier's load becomes its own, and at least this many requests.
SHORTEST_EPISODE: Final = 32
#: Ended requests by which a tier is known, and episodes after which it is given up to become known.
ENOUGH, MOST_TRIES = 8, 4
#: Another tier must be so much faster before it takes over, so that noise does not make it flap.
ADVANTAGE: Final = 0.95
#: How much of what was measured stays with each further request.
MEMORY: Final = 0.99
#: Requests under way that are remembered.
MOST_ROUTED: Final = 65_536


class _Record:
    """What one tier took at one band of concurrency: sums that forget."""

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
    """One band of concurrency: the tier of its current episode and what is known of all."""

    __slots__ = ("left", "length", "records", "tier")

    def __init__(self) -> None:
        self.tier: Hashable = None
        self.left = self.length = 0
        self.records: dict[Hashable, _Record] = {}


class TierLearner:
    """Tiers are told apart by any key, bands of concurrency by powers of two."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._bands: dict[int, _Band] = {}
        #: By request id: where its time is to be booked.
        self._routed: OrderedDict[str, _Record] = OrderedDict()

    def choose(self, concurrency: int, tiers: Sequence[Hashable], default: int) -> int:
        """The place of the tier that the current episode tries; the default where there was none yet."""
        band = self._bands.get(concurrency.bit_length())
        return tiers.index(band.tier) if band is not None and band.tier in tiers else default

    def routed(self, request_id: str, concurrency: int, tiers: Sequence[Hashable], tier: int) -> None:
        """A request went to that tier. Begins the next episode when this was the last of one."""
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
        """A request took this long by the engine's clock; one without a token teaches nothing."""
        record = self._routed.pop(request_id, None)
        seconds = (timing.queue_us + timing.prefill_us + timing.decode_us) * 1e-6
        if record is not None and output_tokens > 0 and seconds > 0.0:
            record.ended += 1
            record.seconds = MEMORY * record.seconds + seconds
            record.tokens = MEMORY * record.tokens + output_tokens

    def per_token(self, concurrency: int, tier: Hashable) -> float | None:
        """Mean seconds for each output token at such a concurrency; None where nothing is known."""
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
