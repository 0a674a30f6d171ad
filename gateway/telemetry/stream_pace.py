"""Measure the times between the events of a streamed answer."""

from time import monotonic

from observability.gaps import MOMENTS, count_gaps
from observability.record import RequestRecord


class StreamPace:
    """Records the times between events, and how long filters held back all that came."""

    __slots__ = ("_held", "_moments", "_record")

    def __init__(self, record: RequestRecord) -> None:
        self._record = record
        self._moments = [monotonic()]
        self._held = 0.0

    def event_received(self) -> None:
        """Count an event."""
        moments = self._moments
        moments.append(monotonic())
        if len(moments) > MOMENTS:
            count_gaps(self._record, moments)

    def event_held(self) -> None:
        """Note that nothing of the last event may be shown yet."""
        if not self._held:
            self._held = self._moments[-1]

    def event_shown(self) -> None:
        """Note that something is shown."""
        if self._held:
            record = self._record
            record.held_seconds = max(record.held_seconds, self._moments[-1] - self._held)
            self._held = 0.0

    def end(self) -> None:
        """Note the end of the stream."""
        self.event_shown()
        count_gaps(self._record, self._moments)
