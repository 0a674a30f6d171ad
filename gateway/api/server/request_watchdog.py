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
        #: Requests whose client is not watched yet, by the number of looks when they began. An ended request is held
        #: by nothing here: its memory is used again at once, while it is still in the processor's caches.
        self._unwatched: dict[HttpExchange, int] = {}
        self._looks = 0
        self._some = asyncio.Event()

    def enter(self, exchange: HttpExchange) -> None:
        """Add a request that begins."""
        if not self.active:
            self._some.set()
        self.active.add(exchange)
        self._unwatched[exchange] = self._looks

    def leave(self, exchange: HttpExchange) -> None:
        """Remove a request that has ended. Idempotent."""
        self.active.discard(exchange)
        self._unwatched.pop(exchange, None)
        # A look may have begun to watch it while its last part was written.
        exchange.unwatch()

    async def run(self) -> None:
        """Look until cancelled; wait while there is no request."""
        next_round = time.monotonic()
        while True:
            await self._some.wait()
            await asyncio.sleep(until_tick(CHECK_SECONDS, time.monotonic()))
            self._look()
            now = time.monotonic()
            if now >= next_round:
                next_round = now + ROUND_SECONDS
                self._enforce_limits(now)
            if not self.active:
                self._some.clear()

    def _look(self) -> None:
        """Begin to watch the clients of requests that an earlier look has seen, once their bodies are read."""
        looks, self._looks = self._looks, self._looks + 1
        for exchange in [exchange for exchange, began in self._unwatched.items() if began < looks]:
            if exchange.watch():
                del self._unwatched[exchange]

    def _enforce_limits(self, now: float) -> None:
        for exchange in list(self.active):
            try:
                exchange.enforce_limits(now)
                if self._keep_alive:
                    exchange.keep_alive(now, self._keep_alive)
            except Exception:
                log.exception("request %s cannot be looked after", exchange.request_id)
