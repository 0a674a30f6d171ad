"""When a replica has failed so often that it is left alone for a while."""

from typing import Final

#: Faults in a row, without a success or so many seconds between, that open it.
CONSECUTIVE_FAULTS: Final = 5
ROW_SECONDS: Final = 60.0
#: It opens too when so much of what ended in the window were faults, of so many at least.
FAULT_RATE: Final = 0.5
LEAST_OUTCOMES: Final = 20
WINDOW_SECONDS: Final = 10
#: How long it stays open, the first time and at most; it is twice as long after each relapse.
OPEN_SECONDS: Final = 5.0
LONGEST_OPEN_SECONDS: Final = 120.0
#: After so long in service, or as long as it was open where that is longer, an opening is no relapse.
FORGIVEN_SECONDS: Final = 60.0
_NEVER: Final = -(1 << 62)


class Breaker:
    """Counts how attempts end, in a window of one-second slots. `now` is in seconds, of a clock that only advances."""

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
        #: All there have ever been.
        self.faults = 0
        self._slots = [_NEVER] * WINDOW_SECONDS
        self._successes = [0] * WINDOW_SECONDS
        self._faults = [0] * WINDOW_SECONDS
        self._consecutive = 0
        self._failed_at = 0.0
        self._seconds = 0.0
        self._until = 0.0
        #: When it was closed last; None while it is open.
        self._closed_at: float | None = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the replica is to be left alone."""
        return self._closed_at is None

    def remaining(self, now: float) -> float:
        """Seconds until it may be closed; 0 once it may, and where it is not open."""
        return max(0.0, self._until - now) if self.is_open else 0.0

    def succeeded(self, now: float) -> None:
        """An attempt has ended well."""
        self._successes[self._slot(now)] += 1
        self._consecutive = 0

    def failed(self, now: float) -> bool:
        """An attempt has ended with a fault; whether there were enough to open it."""
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
        """Leave the replica alone for a while; for longer if it was open already, or until lately."""
        relapse = self._closed_at is None or now - self._closed_at < max(FORGIVEN_SECONDS, self._seconds)
        self._seconds = min(2 * self._seconds, LONGEST_OPEN_SECONDS) if relapse and self._seconds else OPEN_SECONDS
        self._until = now + self._seconds
        self._closed_at = None

    def close(self, now: float) -> None:
        """The replica may have requests again, and begins with a clean record."""
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
