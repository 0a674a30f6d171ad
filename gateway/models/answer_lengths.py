"""How long a model's answers are expected to be, learned from enough of them and not from all."""

import time
from collections.abc import Callable
from typing import Final

from gateway.caching.lru import Lru
from routing.estimates.decode_length import DecodeLength, Origin

#: Answers of one tenant that are learned from: a lesson costs a tenth of a short request, and a hundredth of those that
#: a busy tenant has teach the same.
LESSONS_PER_SECOND: Final = 20.0
#: Lessons that a tenant may have at once, after a while without: with few requests, all count.
MOST_SAVED: Final = 50.0
_TENANTS: Final = 4096


class AnswerLengths:
    """A `DecodeLength` that spares another one most of the lessons."""

    def __init__(self, lengths: DecodeLength, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds."""
        self._lengths = lengths
        self._clock = clock
        #: By tenant, when its next lessons are due if all were taken at that pace: in the past, some are saved.
        self._due: Lru[str, float] = Lru(_TENANTS)

    def expected(self, origin: Origin, prompt_tokens: int, max_tokens: int) -> float:
        """As it says."""
        return self._lengths.expected(origin, prompt_tokens, max_tokens)

    def quantile(self, origin: Origin, prompt_tokens: int, max_tokens: int, share: float) -> float:
        """As it says."""
        return self._lengths.quantile(origin, prompt_tokens, max_tokens, share)

    def learn(self, origin: Origin, prompt_tokens: int, output_tokens: int, *, cut: bool = False) -> None:
        """An answer ended with this length; learned from if the tenant has had few of late."""
        now = self._clock()
        due = self._due.get(origin.tenant)
        earliest = now - MOST_SAVED / LESSONS_PER_SECOND
        due = earliest if due is None or due < earliest else due
        if due <= now:
            self._due.put(origin.tenant, due + 1 / LESSONS_PER_SECOND)
            self._lengths.learn(origin, prompt_tokens, output_tokens, cut=cut)
