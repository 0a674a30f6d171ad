"""A circuit breaker per replica: opens after many faults and closes after a while."""

from typing import Final

#: Consecutive faults that open it; a success or this many seconds between two of them restart the count.
CONSECUTIVE_FAULTS: Final = 5
ROW_SECONDS: Final = 60.0
#: It also opens at this share of faults among the attempts in the window, given at least this many.
FAULT_RATE: Final = 0.5
LEAST_OUTCOMES: Final = 20
WINDOW_SECONDS: Final = 10
#: Seconds it stays open, the first time and at most; doubled after each relapse.
OPEN_SECONDS: Final = 5.0
LONGEST_OPEN_SECONDS: Final = 120.0
#: After this many seconds closed, or as long as it was open where that is longer, an opening is no relapse.
FORGIVEN_SECONDS: Final = 60.0
_NEVER: Final = -(1 << 62)


class Breaker:
    """Counts outcomes of attempts in a window of one-second slots. `now` is in seconds of a monotonic clock."""

    __slots__ = (
        "_closed_at",
        "_consecutive",
        "_failed_at",
        "_faults",
        "_seconds",
        "_slots",
        "_successes",
        "_until",
        "faults",
    )

    def __init__(self) -> None:
        #: All faults so far.
        self.faults = 0
        self._slots = [_NEVER] * WINDOW_SECONDS
        self._successes = [0] * WINDOW_SECONDS
        self._faults = [0] * WINDOW_SECONDS
        self._consecutive = 0
        self._failed_at = 0.0
        self._seconds = 0.0
        self._until = 0.0
        #: When it last closed; None while it is open.
        self._closed_at: float | None = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the replica gets no requests."""
        return self._closed_at is None

    def remaining(self, now: float) -> float:
        """Return the seconds until it may close; 0 once it may, and where it is not open."""
        return max(0.0, self._until - now) if self.is_open else 0.0

    def succeeded(self, now: float) -> None:
        """Count an attempt that succeeded."""
        second = int(now)
        index = second % WINDOW_SECONDS
        if self._slots[index] != second:
            self._slot(now)
        self._successes[index] += 1
        self._consecutive = 0

    def failed(self, now: float) -> bool:
        """Count an attempt that ended with a fault; return whether there are enough to open."""
        self.faults += 1
        self._faults[self._slot(now)] += 1
        self._consecutive = self._consecutive + 1 if now - self._failed_at < ROW_SECONDS else 1
        self._failed_at = now
        if self._consecutive >= CONSECUTIVE_FAULTS:
            return True
        first = int(now) - WINDOW_SECONDS
        recent = [index for index, slot in enumerate(self._slots) if slot > first]
        faults = sum(self._faults[index] for index in recent)
        outcomes = faults + sum(self._successes[index] for index in recent)
        return outcomes >= LEAST_OUTCOMES and faults >= FAULT_RATE * outcomes

    def open(self, now: float) -> None:
        """Open it; for longer if it is open already or was until recently."""
        relapse = self._closed_at is None or now - self._closed_at < max(FORGIVEN_SECONDS, self._seconds)
        self._seconds = min(2 * self._seconds, LONGEST_OPEN_SECONDS) if relapse and self._seconds else OPEN_SECONDS
        self._until = now + self._seconds
        self._closed_at = None

    def close(self, now: float) -> None:
        """Close it and clear its counts."""
        self._closed_at = now
        self._consecutive = 0
        self._slots = [_NEVER] * WINDOW_SECONDS

    def _slot(self, now: float) -> int:
        second = int(now)
        index = second % WINDOW_SECONDS
        if self._slots[index] != second:
            self._slots[index] = second
            self._successes[index] = self._faults[index] = 0
        return index
