"""The request watchdog: one timer per worker finds clients that left, expired deadlines and stuck requests.

A timer and a waiting task for each request would cost a short one a fifth of its time. A request that ends before the
first look costs nothing here.
"""

import asyncio
import logging
import time

from gateway.api.server.http_exchange import HttpExchange
from observability.ticks import until_tick

log = logging.getLogger(__name__)

#: Seconds between looks. A client's leaving is noticed from the second look on, within 200 ms of the request's start.
CHECK_SECONDS = 0.05
#: Deadlines and stuck requests are checked at this coarser interval, in seconds.
ROUND_SECONDS = 1.0


class RequestWatchdog:
    """`active` holds the requests that have begun and not ended."""

    def __init__(self, keep_alive: float = 0.0) -> None:
        """`keep_alive`: seconds that a stream may be without an event before it gets a comment; 0: no comments."""
        self._keep_alive = keep_alive
        self.active: set[HttpExchange] = set()
        self._unwatched: list[HttpExchange] = []
        self._some = asyncio.Event()

    def enter(self, exchange: HttpExchange) -> None:
        """Add a request that begins."""
        self.active.add(exchange)
        if not self._unwatched:
            self._some.set()
        self._unwatched.append(exchange)

    def leave(self, exchange: HttpExchange) -> None:
        """Remove a request that has ended. Idempotent."""
        self.active.discard(exchange)
        # A look may have begun to watch it while its last part was written.
        exchange.unwatch()

    async def run(self) -> None:
        """Look until cancelled; wait while there is no request."""
        next_round = time.monotonic()
        seen: list[HttpExchange] = []
        while True:
            await self._some.wait()
            await asyncio.sleep(until_tick(CHECK_SECONDS, time.monotonic()))
            # Requests that came since the last look wait for the next one; those seen before are watched now.
            waiting = [exchange for exchange in seen if exchange in self.active and not exchange.watch()]
            seen, self._unwatched = waiting + self._unwatched, []
            now = time.monotonic()
            if now >= next_round:
                next_round = now + ROUND_SECONDS
                for exchange in list(self.active):
                    try:
                        exchange.enforce_limits(now)
                        if self._keep_alive:
                            exchange.keep_alive(now, self._keep_alive)
                    except Exception:
                        log.exception("request %s cannot be looked after", exchange.request_id)
            if not self.active and not seen:
                self._some.clear()
