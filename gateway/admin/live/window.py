"""Keep the last seconds of a gateway's counts, from which rates are made."""

from collections import deque
from typing import Final

from gateway.admin.live.totals import Growth, Totals, growth

#: Seconds that rates and latencies cover: workers report counts once a second, so a shorter window would flicker.
WINDOW_SECONDS: Final = 15.0
#: Rates exist from this many seconds on.
LEAST_SECONDS: Final = 1.5
#: A pause between snapshots longer than this begins a new window.
PAUSE_SECONDS: Final = 5.0


class Window:
    """Take totals as they come, and return the growth over at most the window's length."""

    def __init__(self) -> None:
        self._seen: deque[Totals] = deque()
        #: The counts before they fell.
        self._fallen_from = 0.0

    def add(self, totals: Totals) -> Growth | None:
        """Return the growth up to these totals; None while too little has been seen.

        Counts fall when the gateway was restarted, or when a worker's counts are missing for the moment: then they come
        back above where they fell from. In both cases nothing from before is compared with what comes after.
        """
        if self._seen:
            last = self._seen[-1]
            if totals.started != last.started:
                self._fallen_from = 0.0
                self._seen.clear()
            elif totals.mark < last.mark:
                self._fallen_from = max(self._fallen_from, last.mark)
                self._seen.clear()
            elif self._fallen_from and totals.mark >= self._fallen_from:
                self._fallen_from = 0.0
                self._seen.clear()
            elif not 0 <= totals.at - last.at <= PAUSE_SECONDS:
                self._seen.clear()
        self._seen.append(totals)
        while len(self._seen) > 1 and totals.at - self._seen[1].at >= WINDOW_SECONDS:
            self._seen.popleft()
        first = self._seen[0]
        return growth(first, totals) if totals.at - first.at >= LEAST_SECONDS else None
