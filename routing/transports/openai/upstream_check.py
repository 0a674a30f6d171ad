"""Looks at an OpenAI-compatible upstream: whether it is there, and what its engine's own metrics say."""

import logging
from collections.abc import Callable
from typing import Final

from routing.transports.counted_transport import LOOK_TIMEOUT_SECONDS, Unreachable
from routing.transports.http.connection_pool import ConnectionPool
from routing.transports.http.http1_request import HttpFailure
from routing.transports.http.http_get import get
from routing.transports.openai.scrape import Scrape, scraped
from routing.transports.openai.settings import OpenAISettings
from routing.transports.prometheus import samples

log = logging.getLogger(__name__)

#: Lists of models, and metrics, are not longer.
MAX_BYTES: Final = 4 * 1024 * 1024


class Looks:
    """Each raises Unreachable for what cannot be reached. `replica` names it in the log."""

    def __init__(
        self,
        pool: ConnectionPool,
        settings: OpenAISettings,
        headers: Callable[[], dict[str, str]],
        replica: str,
    ) -> None:
        """`headers` shows the key; it raises ValueError."""
        self._pool = pool
        self._settings = settings
        self._headers = headers
        self._replica = replica
        self._scrapes = settings.metrics_of != "none"
        #: Why its metrics could not be read last, which is said once.
        self._problem = ""

    async def health(self) -> None:
        """See whether it answers at its health path."""
        status, _ = await self._get(self._settings.health)
        if status in (401, 403):
            raise Unreachable(f"it refuses our key (status {status})", refused=True)
        if status not in (200, 204, 429):  # over its limit, but there
            asked = self._target(self._settings.health)
            raise Unreachable(f"GET {asked} is answered with status {status}; upstream.health names what is asked for")

    async def load(self) -> Scrape | None:
        """What its metrics say; None: it has none, and those that nobody has named are not asked for again."""
        if not self._scrapes:
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
        self._scrapes = found is not None or kind != "auto"
        return found

    def renew(self) -> None:
        """It was away, and may be another engine now."""
        self._scrapes = self._settings.metrics_of != "none"

    def _target(self, path: str) -> str:
        return path if path.startswith("/") else f"{self._pool.origin.path}/{path}"

    async def _get(self, path: str) -> tuple[int, bytes]:
        try:
            return await get(self._pool, self._target(path), self._headers(), MAX_BYTES, LOOK_TIMEOUT_SECONDS / 2)
        except HttpFailure as failure:
            raise Unreachable(failure.problem) from None
        except ValueError as error:
            raise Unreachable(str(error), refused=True) from None
