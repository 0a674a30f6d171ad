"""Health checks of an OpenAI-compatible upstream, and scrapes of its engine's metrics."""

import logging
from collections.abc import Callable
from typing import Final

from routing.transports.counted_transport import CHECK_TIMEOUT_SECONDS, Unreachable
from routing.transports.http.buffered_exchange import get
from routing.transports.http.connection_pool import ConnectionPool
from routing.transports.http.http1_request import HttpFailure
from routing.transports.openai.scrape import Scrape, scraped
from routing.transports.openai.settings import OpenAISettings
from routing.transports.prometheus import samples

log = logging.getLogger(__name__)

#: Bound on the body of a check: a list of models, or metrics.
MAX_BYTES: Final = 4 * 1024 * 1024


class UpstreamCheck:
    """Checks of one upstream; each raises Unreachable. `replica` names it in the log."""

    def __init__(
        self,
        pool: ConnectionPool,
        settings: OpenAISettings,
        headers: Callable[[], dict[str, str]],
        replica: str,
    ) -> None:
        """`headers` returns the headers with the key; it may raise ValueError. The pool is closed with the checks."""
        self._pool = pool
        self._settings = settings
        self._headers = headers
        self._replica = replica
        #: Whether there are metrics to be read, or it is not known yet.
        self.scrapes = settings.metrics_of != "none"
        #: Why its metrics could not be read last; logged once.
        self._problem = ""

    async def health(self) -> None:
        """Request the health path. Raises Unreachable."""
        status, body = await self._get(self._settings.health)
        if status == 403 and b"scope" in body:
            # A restricted key may lack the permission to list models and have that to use them.
            return
        if status in (401, 403):
            raise Unreachable(f"it refuses our key (status {status})", refused=True)
        if status not in (200, 204, 402, 429):  # over its limit or without money, but alive
            asked = self._target(self._settings.health)
            hint = "" if self._pool.origin.path else "; the base URL has no path, and most end in /v1"
            raise Unreachable(
                f"GET {asked} is answered with status {status}; upstream.health names what is asked for{hint}"
            )

    async def load(self) -> Scrape | None:
        """Scrape the metrics; None: there are none, and unless they are configured they are not requested again."""
        if not self.scrapes:
            return None
        kind = self._settings.metrics_of
        try:
            status, body = await self._get(self._settings.metrics)
        except Unreachable as error:
            found, why = None, error.problem
        else:
            found = scraped(samples(body.decode("utf-8", "replace")), kind) if status == 200 else None
            why = f"status {status}" if status != 200 else "no metrics that are known"
        problem = "" if found is not None else why
        if problem and problem != self._problem:
            level = logging.DEBUG if kind == "auto" else logging.WARNING
            log.log(level, "replica %s: its load is counted here; %s: %s", self._replica, self._settings.metrics, why)
        self._problem = problem
        self.scrapes = found is not None or kind != "auto"
        return found

    def renew(self) -> None:
        """Forget what was detected: after an outage it may be another engine."""
        self.scrapes = self._settings.metrics_of != "none"

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()

    def _target(self, path: str) -> str:
        return path if path.startswith("/") else f"{self._pool.origin.path}/{path}"

    async def _get(self, path: str) -> tuple[int, bytes]:
        try:
            return await get(self._pool, self._target(path), self._headers(), MAX_BYTES, CHECK_TIMEOUT_SECONDS / 2)
        except HttpFailure as failure:
            raise Unreachable(failure.problem) from None
        except ValueError as error:
            raise Unreachable(str(error), refused=True) from None
