"""A budget of retries, so that they do not become the load that keeps a fleet down."""

import time
from collections.abc import Callable
from typing import Final

#: Tokens added per request and per second: the defaults of Twitter's Finagle (RetryBudget: 20 % and 10 a second).
PER_REQUEST: Final = 0.2
PER_SECOND: Final = 10.0
#: Capacity. When a replica dies, all its requests without a token are retried at once, at most twice each
#: (MAX_ATTEMPTS), so 256 of them need 512, and this is twice that. A replica dies once and then gets no requests:
#: the rate bounds replicas that fail and come back.
MOST: Final = 1024.0


class RetryBudget:
    """A token bucket of one model in one worker, full at first."""

    __slots__ = ("_at", "_clock", "_left", "_requests")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds."""
        self._clock = clock
        self._left = MOST
        #: Requests since tokens were last added, at `_at`.
        self._requests = 0
        self._at = clock()

    def add_request(self) -> None:
        """Credit the bucket for a new request."""
        self._requests += 1

    def take(self) -> bool:
        """Take a token for one more attempt; False if there is none."""
        now = self._clock()
        self._left = min(MOST, self._left + PER_REQUEST * self._requests + PER_SECOND * (now - self._at))
        self._requests, self._at = 0, now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
