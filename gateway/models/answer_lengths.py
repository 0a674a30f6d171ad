"""A sampler of answer lengths, so that a busy tenant's answers do not all cost a `learn`."""

import time
from collections.abc import Callable
from typing import Final

from gateway.caching.lru import Lru
from routing.estimates.decode_length import DecodeLength, Origin

#: Rate at which one tenant's answers are learned from, per second: a `learn` costs a tenth of a short request, and a
#: hundredth of a busy tenant's answers give the same estimate.
LEARNED_PER_SECOND: Final = 20.0
#: Burst: answers of one tenant that are learned from at once after an idle time; with few requests, all count.
MAX_BURST: Final = 50.0
_TENANTS: Final = 4096


class AnswerLengths:
    """A `DecodeLength` that passes a sample of the answers to another one."""

    def __init__(self, lengths: DecodeLength, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds."""
        self._lengths = lengths
        self._clock = clock
        #: By tenant, when the next `learn` would be due at that rate; a time in the past means some burst is left.
        self._due: Lru[str, float] = Lru(_TENANTS)

    def expected(self, origin: Origin, prompt_tokens: int, max_tokens: int) -> float:
        return self._lengths.expected(origin, prompt_tokens, max_tokens)

    def quantile(self, origin: Origin, prompt_tokens: int, max_tokens: int, share: float) -> float:
        return self._lengths.quantile(origin, prompt_tokens, max_tokens, share)

    def learn(self, origin: Origin, prompt_tokens: int, output_tokens: int, *, cut: bool = False) -> None:
        """Learn an answer's length, unless the tenant's rate is exceeded."""
        now = self._clock()
        due = self._due.get(origin.tenant)
        if due is not None and due > now:
            return
        earliest = now - MAX_BURST / LEARNED_PER_SECOND
        due = earliest if due is None or due < earliest else due
        self._due.put(origin.tenant, due + 1 / LEARNED_PER_SECOND)
        self._lengths.learn(origin, prompt_tokens, output_tokens, cut=cut)
