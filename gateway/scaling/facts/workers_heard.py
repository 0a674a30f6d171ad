"""Whether all workers have been heard: after an outage of the store they report again one after another."""

from collections import deque
from typing import Final

#: Seconds of looks after which the workers that there are have reported, and for which one that reports no more is
#: waited for: by then its report has expired, and it was no slow one.
SETTLED_SECONDS: Final = 3.0
WAITED_SECONDS: Final = 8.0
#: Seconds between two looks that count at most: in an outage nobody can report.
_LONGEST_SECONDS: Final = 1.5


class WorkersHeard:
    """Call `look` once a round."""

    def __init__(self) -> None:
        #: Seconds in which workers could report, and how many did at such times.
        self._seconds = 0.0
        self._counts: deque[tuple[float, int]] = deque()
        self._looked_at: float | None = None
        self._begun = 0.0

    def look(self, workers: int, now: float) -> bool:
        """Take how many workers report now; whether these are all. `now` may jump."""
        if self._looked_at is not None:
            passed = now - self._looked_at
            self._seconds += min(max(passed, 0.0), _LONGEST_SECONDS)
            if not 0.0 <= passed <= _LONGEST_SECONDS * 2:
                self._begun = self._seconds
        self._looked_at = now
        self._counts.append((self._seconds, workers))
        while self._seconds - self._counts[0][0] > WAITED_SECONDS:
            self._counts.popleft()
        settled = self._seconds - self._begun >= SETTLED_SECONDS
        return settled and workers > 0 and workers >= max(count for _, count in self._counts)
