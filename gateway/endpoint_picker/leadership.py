"""Which of several pickers serves: the holder of a lease in the store; the others stand by."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from gateway.scaling.leasing.lease import RENEW_SECONDS, Lease
from protos.errors import StoreUnavailable

log = logging.getLogger(__name__)

#: The lease's keys, apart from those of the controllers.
LEASE_PREFIX: Final = "penstock:{epp}:"


class Leadership:
    """Renews the lease, and tells of each change."""

    def __init__(self, lease: Lease, tell: Callable[[bool], Awaitable[None]]) -> None:
        """`tell` is given whether this process leads: at the first look, and at each change."""
        self._lease = lease
        self._tell = tell
        self._leads: bool | None = None

    async def run(self) -> None:
        """Hold the lease whenever nobody else does, until cancelled."""
        while True:
            try:
                await self.look()
            except Exception:
                # Any error: a picker that renews no more would never serve again, and nobody would be told.
                log.exception("renewing the endpoint picker's lease")
            await asyncio.sleep(RENEW_SECONDS)

    async def look(self) -> None:
        """Renew the lease, or try to take it, and tell what has changed."""
        problem = ""
        try:
            await self._lease.renew()
        except StoreUnavailable:
            # What is held lasts for some seconds; then another one may lead.
            problem = ": the store does not answer"
        leads = self._lease.held is not None
        if leads is not self._leads:
            self._leads = leads
            log.info("this endpoint picker %s%s", "leads" if leads else "stands by", problem)
            await self._tell(leads)
