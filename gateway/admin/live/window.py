"""The last seconds of a gateway's counts, from which rates are made."""

from collections import deque
from typing import Final

from gateway.admin.live.totals import Growth, Totals, growth

#: Rates and times are those of so many seconds: workers tell their counts once a second, so less would flicker.
WINDOW_SECONDS: Final = 15.0
#: From so many seconds on there are any.
LEAST_SECONDS: Final = 1.5
#: A pause in looking that is longer than this begins a new window.
PAUSE_SECONDS: Final = 5.0


class Window:
    """Takes in totals as they come, and tells what has grown over the window's length at most."""

    def __init__(self) -> None:
        self._seen: deque[Totals] = deque()
        #: What the counts had come to before they fell.
        self._fallen_from = 0.0

    def add(self, totals: Totals) -> Growth | None:
        """The growth up to these totals; None while too little is seen to say.

        Counts that fall are those of a gateway that has been restarted, or of one where a worker's are missing for the
        moment: then they come back above where they fell from. Nothing from before either is compared with what
        comes after.
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
