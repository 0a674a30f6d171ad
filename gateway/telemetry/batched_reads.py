"""Batch many small reads of the store into few round trips, for readers that read of every tenant at once."""

import asyncio
from collections.abc import Sequence

from gateway.store.lua_script import Script
from gateway.tenancy.limits.usage_reading import ReadingStore
from protos.errors import StoreUnavailable


class BatchedReads:
    """A `ReadingStore` that joins one event-loop tick's calls of a script with one key and one argument."""

    def __init__(self, store: ReadingStore) -> None:
        self._store = store
        self._waiting: dict[Script, list[tuple[str, bytes, asyncio.Future[bytes]]]] = {}
        self._round_trips: set[asyncio.Task[None]] = set()

    async def run_many(self, script: Script, calls: Sequence[tuple[str, bytes]]) -> list[bytes | StoreUnavailable]:
        """Run a Lua script for each (key, argument), which are many already. Raises StoreUnavailable."""
        return await self._store.run_many(script, calls)

    async def now(self) -> float:
        """Return the store's clock, in seconds since the epoch."""
        return await self._store.now()

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object:
        """Run a Lua script and return its reply. Raises StoreUnavailable."""
        if len(keys) != 1 or len(arguments) != 1 or not isinstance(argument := arguments[0], bytes):
            return await self._store.run(script, keys, arguments)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bytes] = loop.create_future()
        waiting = self._waiting.setdefault(script, [])
        waiting.append((keys[0], argument, future))
        if len(waiting) == 1:
            loop.call_soon(self._send, script)
        return await future

    def _send(self, script: Script) -> None:
        task = asyncio.create_task(self._round_trip(script, self._waiting.pop(script)))
        self._round_trips.add(task)
        task.add_done_callback(self._round_trips.discard)

    async def _round_trip(self, script: Script, calls: Sequence[tuple[str, bytes, "asyncio.Future[bytes]"]]) -> None:
        replies: Sequence[bytes | StoreUnavailable]
        try:
            replies = await self._store.run_many(script, [(key, argument) for key, argument, _ in calls])
        except StoreUnavailable as error:
            replies = [error] * len(calls)
        for (_, _, future), reply in zip(calls, replies, strict=True):
            if future.done():
                continue  # whoever asked has left
            if isinstance(reply, bytes):
                future.set_result(reply)
            else:
                future.set_exception(reply)
