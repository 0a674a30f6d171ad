"""Discard what a client still sends after its answer.

A server that closes a connection with bytes unread resets it, and the reset takes the answer from a client that reads
only when it has written everything (RFC 9112, 9.6).
"""

import asyncio
import contextlib
from typing import Final

from starlette.types import Receive

#: The longest rest of a body that is read to save an answer; a longer one ends with the connection.
MOST_BYTES: Final = 64 << 20
MOST_SECONDS: Final = 30.0


async def discard_body(receive: Receive, announced: int) -> None:
    """Read the rest of a body of `announced` bytes (0: unknown) within bounds, after its answer has been sent."""
    left = MOST_BYTES
    if announced > left:
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(MOST_SECONDS):
            while left > 0:
                message = await receive()
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return
                left -= len(message.get("body", b""))
