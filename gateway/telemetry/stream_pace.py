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

    def event_received(self, *, shown: bool = True) -> None:
        """Count an event; `shown`: of the one before it something was shown."""
        moments = self._moments
        if not shown:
            self._held = self._held or moments[-1]
        elif self._held:
            self._note_held()
        moments.append(monotonic())
        if len(moments) > MOMENTS:
            count_gaps(self._record, moments)

    def _note_held(self) -> None:
        record = self._record
        record.held_seconds = max(record.held_seconds, self._moments[-1] - self._held)
        self._held = 0.0

    def end(self) -> None:
        """Note the end of the stream."""
        if self._held:
            self._note_held()
        count_gaps(self._record, self._moments)
