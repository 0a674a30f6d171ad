"""Measure the times between the events of a streamed answer."""

from time import monotonic

from observability.gaps import MOMENTS, count_gaps
from observability.record import RequestRecord


class StreamPace:
    """Records the times between events, and how long filters held back all that came."""

    __slots__ = ("_held", "_is_held", "_moments", "_record")

    def __init__(self, record: RequestRecord) -> None:
        self._record = record
        self._moments = [monotonic()]
        #: When the first event came of those of which nothing is shown, and whether the last is one of them.
        self._held = 0.0
        self._is_held = False

    def event_received(self) -> None:
        """Count an event."""
        if self._held:
            self._end_hold()
        moments = self._moments
        moments.append(monotonic())
        if len(moments) > MOMENTS:
            count_gaps(self._record, moments)

    def event_held(self) -> None:
        """Note that nothing of the last event may be shown yet; else it is shown."""
        self._held = self._held or self._moments[-1]
        self._is_held = True

    def _end_hold(self) -> None:
        """Note how long text was held, if the last event was shown."""
        if not self._is_held:
            record = self._record
            record.held_seconds = max(record.held_seconds, self._moments[-1] - self._held)
            self._held = 0.0
        self._is_held = False

    def end(self) -> None:
        """Note the end of the stream."""
        self._is_held = False
        if self._held:
            self._end_hold()
        count_gaps(self._record, self._moments)
