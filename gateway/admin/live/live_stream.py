"""Send snapshots as server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.admin.live.feed import Feed, FeedClosed
from protos.errors import Overloaded

log = logging.getLogger(__name__)

#: Seconds after which a viewer that reads nothing is disconnected.
STALL_SECONDS: Final = 10.0
_END: Final = {"type": "http.response.body", "body": b"", "more_body": False}


class LiveStream(Response):
    """Send each snapshot, or the newest where the viewer is slower, until the viewer leaves or the feed is closed."""

    def __init__(self, feed: Feed, *, stall_seconds: float = STALL_SECONDS) -> None:
        super().__init__(headers={"content-type": "text/event-stream", "x-accel-buffering": "no"})
        # No content-length: the answer ends with its connection.
        del self.headers["content-length"]
        self._feed = feed
        self._stall_seconds = stall_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the end; leave no task behind."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if scope["method"] != "HEAD":
            await _first(self._send_events(send), _disconnected(receive))
        else:
            await send(_END)

    async def _send_events(self, send: Send) -> None:
        with contextlib.suppress(TimeoutError):
            await self._until_stalled(send)
            return
        # Without an end the server closes the connection once the viewer has read everything.
        log.info("a viewer of the console takes nothing; it is let go")

    async def _until_stalled(self, send: Send) -> None:
        """Send until the feed is closed. Raises TimeoutError."""
        number = 0
        # Other viewers may have taken the last place since this one was admitted.
        with contextlib.suppress(FeedClosed, Overloaded), self._feed.viewer():
            while True:
                item = await self._feed.after(number)
                number = item.number
                event = b"event: live\ndata: " + item.encoded + b"\n\n"
                async with asyncio.timeout(self._stall_seconds):
                    await send({"type": "http.response.body", "body": event, "more_body": True})
        async with asyncio.timeout(self._stall_seconds):
            await send(_END)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _first(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Wait until one task has ended, cancel the others, and raise what the ended one raised."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
