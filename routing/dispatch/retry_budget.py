"""How many requests may be tried again: retries must not become the load that keeps a fleet down."""

import time
from collections.abc import Callable
from typing import Final

#: What each request adds, and each second, as Twitter's Finagle has it (RetryBudget: 20 % and 10 a second).
PER_REQUEST: Final = 0.2
PER_SECOND: Final = 10.0
#: What may be saved. A replica that dies takes with it all that had no token yet, at once, and each of them is tried
#: again: at most twice (MAX_ATTEMPTS), so 256 of them on one replica need 512, and this is twice that. A replica has
#: one death, after which it gets no requests: it is what fails and comes back that the rate is there to bound.
MOST: Final = 1024.0


class RetryBudget:
    """A token bucket, full at first, of one model in one worker."""

    __slots__ = ("_at", "_clock", "_left")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds."""
        self._clock = clock
        self._left = MOST
        self._at = clock()

    def asked(self) -> None:
        """A request has come."""
        left = self._left + PER_REQUEST
        self._left = left if left < MOST else MOST

    def take(self) -> bool:
        """Whether one attempt more may be made; it then counts."""
        now = self._clock()
        self._left = min(MOST, self._left + PER_SECOND * (now - self._at))
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
