"""Looks as server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html), one viewer each."""

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

#: A viewer that takes nothing for so long is let go.
STALL_SECONDS: Final = 10.0
_END: Final = {"type": "http.response.body", "body": b"", "more_body": False}


class LiveStream(Response):
    """Sends each look, or the newest where the viewer is slower, until the viewer leaves or the feed is closed."""

    def __init__(self, feed: Feed, *, stall_seconds: float = STALL_SECONDS) -> None:
        super().__init__(headers={"content-type": "text/event-stream", "x-accel-buffering": "no"})
        # A whole answer has a length; this one ends when it ends.
        del self.headers["content-length"]
        self._feed = feed
        self._stall_seconds = stall_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the end; leaves no task behind."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if scope["method"] != "HEAD":
            await _first(self._send_looks(send), _gone(receive))
        else:
            await send(_END)

    async def _send_looks(self, send: Send) -> None:
        with contextlib.suppress(TimeoutError):
            await self._until_stalled(send)
            return
        # Without an end the server closes the connection once the viewer has taken what it was sent.
        log.info("a viewer of the console takes nothing; it is let go")

    async def _until_stalled(self, send: Send) -> None:
        """Until the feed is closed. Raises TimeoutError."""
        number = 0
        # Others may have taken the last place since this one was let in.
        with contextlib.suppress(FeedClosed, Overloaded), self._feed.viewer():
            while True:
                look = await self._feed.after(number)
                number = look.number
                event = b"event: live\ndata: " + look.encoded + b"\n\n"
                async with asyncio.timeout(self._stall_seconds):
                    await send({"type": "http.response.body", "body": event, "more_body": True})
        async with asyncio.timeout(self._stall_seconds):
            await send(_END)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _first(*ways: Coroutine[Any, Any, None]) -> None:
    """Until one of them has ended; the others are cancelled, and what the ended one raised is raised."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
