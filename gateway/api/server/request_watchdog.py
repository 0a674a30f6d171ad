"""Looks after all requests of a worker from one timer: whose client left, which is out of time, which is stuck.

A timer and a waiting task for each request would cost a short one a fifth of its time. Here nothing is spent on a
request that ends before the first look.
"""

import asyncio
import logging
import time

from gateway.api.server.http_exchange import HttpExchange
from observability.ticks import until_tick

log = logging.getLogger(__name__)

#: A client's leaving is noticed from the second look on: well within 200 ms of a request's start.
LOOK_SECONDS = 0.05
#: Deadlines and stuck requests are looked for at this coarser pace, in seconds.
ROUND_SECONDS = 1.0


class RequestWatchdog:
    """`active` holds the requests that have begun and not ended."""

    def __init__(self, keep_alive: float = 0.0) -> None:
        """`keep_alive`: seconds that a stream may be without an event before it gets a comment; 0: any."""
        self._keep_alive = keep_alive
        self.active: set[HttpExchange] = set()
        self._unwatched: list[HttpExchange] = []
        self._some = asyncio.Event()

    def enter(self, exchange: HttpExchange) -> None:
        """A request begins."""
        self.active.add(exchange)
        self._unwatched.append(exchange)
        self._some.set()

    def leave(self, exchange: HttpExchange) -> None:
        """A request has ended. Idempotent."""
        self.active.discard(exchange)
        # It may have been seen while the last of it was written, when nobody was to watch any more.
        exchange.unwatch()

    async def run(self) -> None:
        """Look until cancelled; waits while there is nothing to look at."""
        next_round = time.monotonic()
        seen: list[HttpExchange] = []
        while True:
            await self._some.wait()
            await asyncio.sleep(until_tick(LOOK_SECONDS, time.monotonic()))
            # Those that came since the last look get until the next one, those of the look before are watched now.
            waiting = [exchange for exchange in seen if exchange in self.active and not exchange.watch()]
            seen, self._unwatched = waiting + self._unwatched, []
            now = time.monotonic()
            if now >= next_round:
                next_round = now + ROUND_SECONDS
                for exchange in list(self.active):
                    try:
                        exchange.look(now)
                        if self._keep_alive:
                            exchange.keep_alive(now, self._keep_alive)
                    except Exception:
                        log.exception("request %s cannot be looked after", exchange.request_id)
            if not self.active and not seen:
                self._some.clear()
