"""A timeout counted in ticks of an event loop that ran, for peers that must show signs of life.

Wall time would count the worker's own stalls as the replica's silence: data that came meanwhile lies unread in the
socket. Each tick is a sleep of its own, so a stall of the loop counts as one tick however long it was, and the loop
has polled its sockets before the next tick.
"""

import asyncio
from math import ceil

TICK_SECONDS = 0.25


class Patience:
    """Expires after `seconds` without `renew`, or up to one tick later."""

    __slots__ = ("_left", "_ticks")

    def __init__(self, seconds: float) -> None:
        # The first tick may come right after a renewal.
        self._ticks = ceil(seconds / TICK_SECONDS) + 1
        self._left = self._ticks

    def renew(self) -> None:
        """Restart: there was a sign of life."""
        self._left = self._ticks

    def tick(self) -> bool:
        """Count a tick; return whether it has expired, in which case it restarts."""
        self._left -= 1
        if self._left > 0:
            return False
        self._left = self._ticks
        return True


async def exhausted(patience: Patience) -> None:
    """Tick until the patience has expired."""
    while True:
        await asyncio.sleep(TICK_SECONDS)
        if patience.tick():
            return
