"""Count the times between the events of streams, in few buckets."""

from bisect import bisect_left
from typing import Final

from observability.record import RequestRecord

#: Upper bounds in seconds; one more bucket holds longer times.
BOUNDS: Final = (0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.2, 0.35, 0.6, 1.0, 2.5)
#: This many times are gathered before they are counted.
MOMENTS: Final = 512


def count_gaps(record: RequestRecord, moments: list[float]) -> None:
    """Count the intervals between successive times, and keep the last time for the next call."""
    gaps = record.gaps
    if not gaps:
        record.gaps = gaps = [0] * (len(BOUNDS) + 1)
    before = first = moments[0]
    for moment in moments[1:]:
        gaps[bisect_left(BOUNDS, moment - before)] += 1
        before = moment
    record.gap_seconds += before - first
    del moments[:-1]
