"""The base of controllers: one process has the lease, and holds a round each second while it has it."""

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from gateway.fleets.discovery.announcements import Announcements, Channels
from gateway.scaling.leasing.lease import RENEW_SECONDS, Holder, Lease, LeaseLost
from gateway.store.store_failure import store_problem
from protos.errors import StoreUnavailable

log = logging.getLogger(__name__)

#: Seconds between two rounds.
ROUND_SECONDS: Final = 1.0


class LeasedRounds(ABC):
    """A controller; `run` it once. It renews its lease whatever its rounds do, and an error ends one round alone."""

    def __init__(self, lease: Lease, role: str) -> None:
        """`role` is what the log calls whoever has the lease."""
        self.lease = lease
        self._role = role
        #: Set when the next round shall not wait.
        self._hurry = asyncio.Event()
        #: What was said last of the lease and of rounds.
        self._said = {"lease": "", "round": ""}

    async def run(self, channels: Channels | None = None) -> None:
        """Hold rounds whenever this process has the lease, until cancelled; at once when `channels` say so."""
        tasks = [asyncio.create_task(self._renew())]
        if channels is not None:
            channel, without = self._hurry_channel()
            tasks.append(asyncio.create_task(Announcements(channels, channel, self._hurry.set, without).run()))
        tasks += [asyncio.create_task(one) for one in self._beside()]
        try:
            while True:
                self._hurry.clear()
                try:
                    await self.round()
                except Exception:
                    # Any error: what nobody looks after is worse than one failed round.
                    log.exception("a round of the %s", self._role)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(ROUND_SECONDS):
                        await self._hurry.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.aclose()

    async def renew(self) -> None:
        """Take or keep the lease once."""
        try:
            await self.lease.renew()
        except StoreUnavailable as error:
            self._say("lease", store_problem(error), logging.WARNING)
            return
        holder = self.lease.holder
        if self.lease.held is not None:
            self._say("lease", f"this process is the {self._role}", logging.INFO)
        elif holder is not None:
            self._say("lease", f"{holder.name} is the {self._role}", logging.INFO)

    async def round(self) -> None:
        """Look and act once, if this process may."""
        holder = self.lease.held
        if holder is None:
            return
        try:
            await self._act(holder)
        except StoreUnavailable as error:
            self._say("round", store_problem(error), logging.WARNING)
        except LeaseLost:
            self._say("round", f"another {self._role} acts now", logging.WARNING)
        else:
            self._said["round"] = ""

    @abstractmethod
    async def aclose(self) -> None:
        """Abandon what is under way outside the store."""

    @abstractmethod
    async def _act(self, holder: Holder) -> None:
        """Hold a round. Raises StoreUnavailable and LeaseLost."""

    @abstractmethod
    def _hurry_channel(self) -> tuple[str, str]:
        """Return the channel that hurries rounds, and what its absence means, for the log."""

    def _beside(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Return what else runs until the controller ends."""
        return ()

    async def _renew(self) -> None:
        while True:
            try:
                await self.renew()
            except Exception:
                # Any error: a controller that renews no more would never act again, and nobody would be told.
                log.exception("renewing the lease of the %s", self._role)
            await asyncio.sleep(RENEW_SECONDS)

    def _say(self, of: str, state: str, level: int) -> None:
        if state not in self._said.values():
            log.log(level, "%s", state)
        self._said[of] = state
