"""The replica that is held for the first in line, where room accumulates."""

from collections.abc import Sequence
from typing import Final

from gateway.scheduling.waiter import Waiter
from routing.contracts.policy import ReplicaView

#: Seconds that the first in line waits in vain before a replica is held for it.
HOLD_SECONDS: Final = 1.0
_NOTHING: Final[frozenset[str]] = frozenset()


class Hold:
    """Who is first in line and finds no room, since when, and the replicas that nobody else gets meanwhile.

    Otherwise small requests behind it could take every bit of room as it comes, and it would wait for ever.
    """

    def __init__(self) -> None:
        self.waiter: Waiter | None = None
        self.replicas = _NOTHING
        self._since = 0.0

    def is_due(self, waiter: Waiter, views: Sequence[ReplicaView], now: float) -> bool:
        """Note that the first in line found no room; return whether a replica of `views` should be held for it now."""
        if waiter is not self.waiter:
            self.waiter, self._since, self.replicas = waiter, now, _NOTHING
            return False
        there = self.replicas and self.replicas <= {view.id for view in views}
        return now - self._since >= HOLD_SECONDS and not there

    def forget(self, waiter: Waiter) -> None:
        """Hold nothing any more for a request that no longer waits."""
        if waiter is self.waiter:
            self.waiter, self.replicas = None, _NOTHING
