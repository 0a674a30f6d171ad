"""What is held of a question that is asked again and again: the last answer that was good for something."""

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

#: How long an answer that names nothing must last before it is believed: a name server that restarts says so too.
EMPTY_GRACE_SECONDS: Final = 30.0

T = TypeVar("T")


class LastGood(Generic[T]):
    """Times are seconds of any one clock that only advances."""

    def __init__(self) -> None:
        self.held: Sequence[T] = ()
        #: Why nothing newer is known; empty where the last answer counts.
        self.problem = "not asked yet"
        self._empty_since: float | None = None

    def answered(self, found: Sequence[T], now: float) -> None:
        """An answer came. One that names nothing counts only when it has lasted for a while."""
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
        """No answer came: what was known stays, however long that lasts."""
        self.problem = problem
