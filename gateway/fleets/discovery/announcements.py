"""Hears from the store that registrations have changed, sooner than they would be looked at."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from gateway.fleets.discovery.registrations import CHANGES
from protos.errors import StoreUnavailable

log = logging.getLogger(__name__)

#: Seconds until a lost subscription is tried again. Meanwhile registrations are looked at every half second.
RETRY_SECONDS: Final = 1.0


class Channels(Protocol):
    """A store with channels, as `Store` is."""

    async def hear(self, channel: str, heard: Callable[[], None]) -> None:
        """Call `heard` for each message until the store is lost. Raises StoreUnavailable."""
        ...


class Announcements:
    """The announcements for one worker."""

    def __init__(self, channels: Channels, heard: Callable[[], None]) -> None:
        """`heard` is called for each change, and when changes may have been missed."""
        self._channels = channels
        self._heard = heard
        self._problem = ""

    async def run(self) -> None:
        """Listen until cancelled."""
        while True:
            try:
                await self._channels.hear(CHANGES, self._note_heard)
            except StoreUnavailable as error:
                self._note(f"{error.__cause__ or error}")
            await asyncio.sleep(RETRY_SECONDS)

    def _note_heard(self) -> None:
        self._note("")
        self._heard()

    def _note(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.warning("replicas that register are noticed up to 0.5 s later: %s", problem)
        self._problem = problem
