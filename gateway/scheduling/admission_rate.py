"""The rate at which a queue admits requests, by which clients are told when to come back."""

from math import exp
from typing import Final

#: Bounds of the `Retry-After` that clients get, and its value while the rate is unknown, in seconds.
SHORTEST_RETRY: Final = 1.0
LONGEST_RETRY: Final = 120.0
UNKNOWN_RETRY: Final = 5.0
#: Time constant of the moving average of the admission rate, in seconds.
RATE_SECONDS: Final = 5.0


class AdmissionRate:
    """A moving average of the cost admitted per second."""

    __slots__ = ("_at", "_rate", "granted")

    def __init__(self, now: float) -> None:
        #: Cost admitted since the rate was last computed.
        self.granted = 0
        self._rate = 0.0
        self._at = now

    def retry_after(self, waiting: float, now: float) -> float:
        """Seconds until a queue of that cost will be drained at the current rate."""
        passed = now - self._at
        if passed >= 1.0:
            weight = exp(-passed / RATE_SECONDS)
            self._rate = self._rate * weight + self.granted / passed * (1.0 - weight)
            self._at, self.granted = now, 0
        if self._rate <= 0.0:
            return UNKNOWN_RETRY
        return min(max(waiting / self._rate, SHORTEST_RETRY), LONGEST_RETRY)
