"""A provider as one process knows it: a base URL and a key, whatever number of models is served by it."""

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from observability.logs import RateLimit
from routing.health.refusals import FundsBackOff, RefusalProof
from routing.transports.counted_transport import CHECK_SECONDS, LAST_RETRY_SECONDS, Unreachable
from routing.transports.openai.scrape import Scrape
from routing.transports.openai.upstream_check import UpstreamCheck

log = logging.getLogger(__name__)
log.addFilter(RateLimit(per_second=20))


class Member(Protocol):
    """A model's replica at the provider."""

    def look_begins(self) -> None:
        """The provider's load is about to be read."""
        ...

    def looked(self, found: Scrape | None) -> None:
        """The provider can be reached; `found` is its load, if it reports one."""
        ...

    def look_failed(self, error: Unreachable) -> None: ...

    def leave_alone(self, seconds: float, why: str) -> None:
        """The provider takes no requests for so many seconds."""
        ...

    def key_is_refused(self, why: str) -> None:
        """The provider is proven to refuse the gateway's key."""
        ...


class Provider:
    """Looks at the provider for all its members, and tells them what concerns its account. Needs a running loop.

    An answered request counts as a look. `clock` counts seconds.
    """

    def __init__(self, check: UpstreamCheck, health_seconds: float, clock: Callable[[], float]) -> None:
        self._check = check
        self._health_seconds = health_seconds
        self._clock = clock
        self._members: list[Member] = []
        self._next_look = 0.0
        self._reached = False
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[Scrape | None] | None = None
        self._proof = RefusalProof()
        self._funds = FundsBackOff()

    def join(self, member: Member) -> None:
        """Tell the member from now on."""
        self._members.append(member)
        if self._task is None:
            self._task = asyncio.create_task(self._look_regularly())
        else:
            self.doubt()

    def leave(self, member: Member) -> None:
        """Tell the member nothing more; idempotent."""
        with suppress(ValueError):
            self._members.remove(member)

    async def aclose(self) -> None:
        """End the looks and their connections."""
        tasks = [task for task in (self._task, self._looking) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._check.aclose()

    async def look(self) -> Scrape | None:
        """Look at once, or wait for the look that has begun. Raises Unreachable."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return await asyncio.shield(self._looking)

    async def be_sure(self) -> None:
        """Look unless the last look is still good. Raises Unreachable."""
        if self._is_due:
            await self.look()

    def doubt(self) -> None:
        """Look soon: something speaks against it."""
        self._next_look = 0.0
        self._woken.set()

    def answered(self) -> None:
        """Note that it has answered a request."""
        self._next_look = self._clock() + self._health_seconds
        self._proof.answered()
        self._funds.paid()

    def refuses_key(self, tenant: str, request: int, why: str) -> None:
        """Note a refusal of the gateway's key, which counts once it is repeated."""
        if self._proof.noted(self._clock(), tenant, request, clear=True):
            for member in list(self._members):
                member.key_is_refused(why)
        self.doubt()

    def cannot_pay(self, stated: float, why: str) -> float:
        """Note that the account cannot pay; return the seconds for which the provider is left alone."""
        seconds = self._funds.noted(self._clock(), stated)
        for member in list(self._members):
            member.leave_alone(seconds, f"it gets no requests for {seconds:.0f} s: {why}")
        return seconds

    async def _look(self) -> Scrape | None:
        if not self._reached:
            self._check.renew()
        self._reached = False
        await self._check.health()
        self._reached = True
        self._next_look = self._clock() + self._health_seconds
        return await self._check.load()

    async def _look_regularly(self) -> None:
        retry = CHECK_SECONDS
        while True:
            self._woken.clear()
            wait = CHECK_SECONDS
            try:
                for member in self._members:
                    member.look_begins()
                found = await (self.look() if self._is_due else self._check.load())
            except Unreachable as error:
                self._tell_each(lambda member, error=error: member.look_failed(error))  # type: ignore[misc]
                wait = retry = min(retry * 1.5, LAST_RETRY_SECONDS)
            except Exception:
                # Any exception: a provider that is never looked at again is worse than one more failed look.
                log.exception("looking at a provider")
            else:
                self._tell_each(lambda member, found=found: member.looked(found))  # type: ignore[misc]
                retry = CHECK_SECONDS
                if not self._check.scrapes:
                    wait = max(CHECK_SECONDS, self._next_look - self._clock())
            with suppress(TimeoutError):
                async with asyncio.timeout(wait * random.uniform(0.75, 1.0)):
                    await self._woken.wait()

    @property
    def _is_due(self) -> bool:
        return not self._reached or self._clock() >= self._next_look

    def _tell_each(self, tell: Callable[[Member], None]) -> None:
        for member in list(self._members):
            try:
                tell(member)
            except Exception:
                log.exception("telling a replica how its provider is")
