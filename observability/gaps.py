"""Times between the events of streams, counted in few buckets: one comparison or two for each event."""

from bisect import bisect_left
from typing import Final

#: Upper bounds in seconds; one bucket more holds what is longer.
BOUNDS: Final = (0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.2, 0.35, 0.6, 1.0, 2.5)


def count_gaps(moments: list[float], gaps: list[int]) -> None:
    """Count the times between moments that follow one another into `gaps`, of `len(BOUNDS) + 1` numbers."""
    before = moments[0]
    for moment in moments[1:]:
        gaps[bisect_left(BOUNDS, moment - before)] += 1
        before = moment
