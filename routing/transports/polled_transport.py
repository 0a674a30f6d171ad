"""Transports that check one replica at regular times."""

import asyncio
import logging
import random
from abc import abstractmethod

from routing.transports.counted_transport import (
    CHECK_SECONDS,
    CHECK_TIMEOUT_SECONDS,
    LAST_RETRY_SECONDS,
    CheckResult,
    CountedConnection,
    Unreachable,
)

log = logging.getLogger(__name__)


class PolledConnection(CountedConnection):
    """Base of these transports; subclasses implement the health check."""

    @abstractmethod
    async def _check(self) -> CheckResult:
        """Check the replica. Raises Unreachable, or TimeoutError when cut short."""

    def _begin(self) -> None:
        self._spawn(self._check_regularly())

    async def _check_regularly(self) -> None:
        delay = CHECK_SECONDS
        while True:
            try:
                async with asyncio.timeout(CHECK_TIMEOUT_SECONDS):
                    before = list(self._flights.values())
                    self._check_passed(await self._check(), before)
                delay = CHECK_SECONDS
            except (Unreachable, TimeoutError) as error:
                self._check_failed(error)
                delay = min(delay * 1.5, LAST_RETRY_SECONDS)
            except Exception:
                # Any exception: a replica that is never checked again is worse than one more failed check.
                log.exception("replica %s at %s", self.spec.id, self.spec.address)
            await asyncio.sleep(delay * random.uniform(0.75, 1.0))
