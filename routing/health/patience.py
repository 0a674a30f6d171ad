"""How long a sign of life may be missing, counted in ticks of an event loop that ran.

Wall time would count the worker's own stalls as the replica's silence: what came meanwhile lies unread in the socket.
A tick is a sleep of its own, so however long the loop stood still in between, it counts once, and before the next one
the loop has polled its sockets.
"""

import asyncio
from math import ceil

TICK_SECONDS = 0.25


class Patience:
    """Over after `seconds` without `renew`, or up to one tick later."""

    __slots__ = ("_left", "_ticks")

    def __init__(self, seconds: float) -> None:
        # The first tick may come right after a renewal.
        self._ticks = ceil(seconds / TICK_SECONDS) + 1
        self._left = self._ticks

    def renew(self) -> None:
        """There was a sign of life."""
        self._left = self._ticks

    def tick(self) -> bool:
        """A tick has passed; whether the patience is over, which begins it anew."""
        self._left -= 1
        if self._left > 0:
            return False
        self._left = self._ticks
        return True


async def exhausted(patience: Patience) -> None:
    """Return once the patience is over."""
    while True:
        await asyncio.sleep(TICK_SECONDS)
        if patience.tick():
            return
