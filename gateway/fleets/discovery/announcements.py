"""Follows a channel of the store for as long as it takes, through losses of the store."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from protos.errors import StoreUnavailable

log = logging.getLogger(__name__)

#: Seconds until a lost subscription is tried again. What is announced is also polled meanwhile.
RETRY_SECONDS: Final = 1.0


class Channels(Protocol):
    """A store with channels, as `Store` is."""

    async def hear(self, channel: str, heard: Callable[[], None]) -> None:
        """Call `heard` for each message until the store is lost. Raises StoreUnavailable."""
        ...


class Announcements:
    """The messages of one channel, for one process."""

    def __init__(self, channels: Channels, channel: str, heard: Callable[[], None], without: str) -> None:
        """`heard` is called for each message, and when some may have been missed.

        `without` tells operators what it means while there is no subscription.
        """
        self._channels = channels
        self._channel = channel
        self._heard = heard
        self._without = without
        self._problem = ""

    async def run(self) -> None:
        """Listen until cancelled."""
        while True:
            try:
                await self._channels.hear(self._channel, self._note_heard)
            except StoreUnavailable as error:
                self._note(f"{error.__cause__ or error}")
            await asyncio.sleep(RETRY_SECONDS)

    def _note_heard(self) -> None:
        self._note("")
        self._heard()

    def _note(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.warning("%s: %s", self._without, problem)
        self._problem = problem
