"""The last good answer to a repeated query."""

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

#: Seconds that an empty answer must last before it counts: a restarting name server gives one too.
EMPTY_GRACE_SECONDS: Final = 30.0

T = TypeVar("T")


class LastGood(Generic[T]):
    """The last good answer; times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self.held: Sequence[T] = ()
        #: Why there is no newer answer; empty if the last one counts.
        self.problem = "not asked yet"
        self._empty_since: float | None = None

    def answered(self, found: Sequence[T], now: float) -> None:
        """Note an answer. An empty one counts only when it has lasted for a while."""
        if found or not self.held:
            self.held, self._empty_since = found, None
            self.problem = "" if found else "it has no records"
            return
        self.problem = "it has no records any more"
        if self._empty_since is None:
            self._empty_since = now
        if now - self._empty_since >= EMPTY_GRACE_SECONDS:
            self.held, self._empty_since = (), None

    def failed(self, problem: str) -> None:
        """Note a failure; the known answer stays, however long that lasts."""
        self.problem = problem
