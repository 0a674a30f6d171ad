"""Hears what is published on a channel of the store, for as long as the store is there."""

import asyncio
from collections.abc import Callable
from typing import Final

from redis.asyncio.client import PubSub
from redis.exceptions import ConnectionError as RedisConnectionError

from gateway.store.valkey_server import Server

#: Seconds of silence after which a server is asked whether it is still there, and in which it must answer.
SILENCE_SECONDS: Final = 5.0


async def hear(server: Server, channel: str, timeout: float, heard: Callable[[], None]) -> None:
    """Call `heard` at the subscription's beginning and for each message, until the server is lost.

    `timeout` bounds the subscription's beginning, in seconds.

    Raises:
        RedisError, RedisClusterException, OSError: What the client raises for a server that is lost or refuses.
    """
    client = await server.subscriber()
    subscription: PubSub = client.pubsub()
    try:
        async with asyncio.timeout(timeout):
            await subscription.subscribe(channel)
        while message := await _message(subscription):
            if message["type"] in ("subscribe", "message"):
                heard()
    finally:
        await subscription.aclose()  # type: ignore[no-untyped-call]
        await client.aclose()


async def _message(subscription: PubSub) -> dict[str, object]:
    """Wait for the next message; a server that has lost its network sends none, and closes no connection."""
    message = await subscription.get_message(timeout=SILENCE_SECONDS)
    if message is None:
        await subscription.ping()
        message = await subscription.get_message(timeout=SILENCE_SECONDS)
    if message is None:
        raise RedisConnectionError(f"no answer within {SILENCE_SECONDS:g} s")
    return dict(message)
