"""Events of controllers to webhooks, in their order; one that hangs or fails holds nothing up."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from gateway.tenancy.limits.post_json import WebhookFailed, post_json

log = logging.getLogger(__name__)

#: A controller that takes over tells again what has happened within so many seconds before.
RETOLD_SECONDS: Final = 30.0
#: Seconds before each retry.
RETRY_SECONDS: Final = (1.0, 5.0, 30.0)
#: Events that wait for one webhook at most; beyond, the oldest are left out.
MOST_WAITING: Final = 256
#: Webhooks that events wait for at most, one post to each at a time.
MOST_WEBHOOKS: Final = 16


class Webhooks:
    """Delivers events, one after the other for each address."""

    def __init__(
        self,
        of: str,
        post: Callable[[str, bytes], Awaitable[None]] = post_json,
        retries: Sequence[float] = RETRY_SECONDS,
    ) -> None:
        """`of` is what the events are of, as receivers are told it.

        `post` sends a body, within seconds; it raises WebhookFailed.
        """
        self._of, self._post, self._retries = of, post, retries
        self._waiting: dict[str, list[bytes]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._problem = ""
        #: Events that were not delivered.
        self.lost = 0

    def announce(self, webhook: str | None, event: msgspec.Struct) -> None:
        """Send an event, some time; None: nobody is told."""
        if webhook is None:
            return
        if webhook not in self._waiting and len(self._waiting) >= MOST_WEBHOOKS:
            self._lose("events wait for too many webhooks: one is left out")
            return
        waiting = self._waiting.setdefault(webhook, [])
        if len(waiting) >= MOST_WAITING:
            del waiting[0]
            self._lose("too many events wait for the webhook: the oldest is left out")
        waiting.append(msgspec.json.encode({"type": self._of, **msgspec.to_builtins(event)}))
        if webhook not in self._tasks:
            self._tasks[webhook] = asyncio.create_task(self._deliver(webhook))

    async def aclose(self) -> None:
        """Give up what waits."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        self._waiting.clear()

    async def _deliver(self, webhook: str) -> None:
        try:
            waiting = self._waiting[webhook]
            while waiting:
                await self._send(webhook, waiting.pop(0))
        finally:
            self._waiting.pop(webhook, None)
            self._tasks.pop(webhook, None)

    async def _send(self, webhook: str, body: bytes) -> None:
        for pause in (*self._retries, None):
            try:
                await self._post(webhook, body)
            except WebhookFailed as error:
                problem = str(error)
            else:
                self._problem = ""
                return
            if pause is not None:
                await asyncio.sleep(pause)
        self._lose(f"the webhook does not take an event: {problem}")

    def _lose(self, problem: str) -> None:
        self.lost += 1
        if problem != self._problem:
            self._problem = problem
            # Not the address, which may hold a secret.
            log.error("events of the type %s: %s", self._of, problem)
