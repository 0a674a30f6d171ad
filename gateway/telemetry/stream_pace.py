"""How the events of one streamed answer follow one another."""

from time import monotonic

from observability.gaps import MOMENTS, count_gaps
from observability.record import RequestRecord


class Pace:
    """Counts the times between events, and how long filters held back all that came."""

    __slots__ = ("_held", "_moments", "_record")

    def __init__(self, record: RequestRecord) -> None:
        self._record = record
        self._moments = [monotonic()]
        self._held = 0.0

    def came(self) -> None:
        """One more event."""
        moments = self._moments
        moments.append(monotonic())
        if len(moments) > MOMENTS:
            count_gaps(self._record, moments)

    def held(self) -> None:
        """Nothing of the last event may be shown yet."""
        if not self._held:
            self._held = self._moments[-1]

    def shown(self) -> None:
        """Something is shown."""
        if self._held:
            record = self._record
            record.held_seconds = max(record.held_seconds, self._moments[-1] - self._held)
            self._held = 0.0

    def end(self) -> None:
        """No more events come."""
        self.shown()
        count_gaps(self._record, self._moments)
