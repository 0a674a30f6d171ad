"""Threads that tokenize long prompts beside the event loop, one prompt of a tenant at a time."""

import asyncio
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from gateway.text.tokens.unit_cache import UnitCache
from protos.errors import PenstockError
from routing.dispatch.dispatch import RequestHandle

P = ParamSpec("P")
T = TypeVar("T")

#: Tokenizing takes the CPU for milliseconds at a time; with this niceness the event loop has priority.
NICENESS: Final = 5
MAX_THREADS: Final = 4


class EncodingQueue:
    """A thread pool for long prompts, with a lock for each tenant and a cache of what was encoded."""

    def __init__(self) -> None:
        threads = min(MAX_THREADS, os.cpu_count() or 1)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="encoding", initializer=_lower_priority)
        self.units = UnitCache()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(
        self, handle: RequestHandle, tenant: str, encode: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run `encode` in a thread once the tenant's earlier prompts are done, and return its result.

        Raises any error that `handle` is failed with: at once while waiting, otherwise when the thread is done.
        """
        lock = self._locks.get(tenant)
        if lock is None:
            lock = self._locks[tenant] = asyncio.Lock()
        if lock.locked():
            await _Wait(lock).acquire(handle)
        else:
            await lock.acquire()
        try:
            handle.check()
            found = await asyncio.get_running_loop().run_in_executor(self._threads, lambda: encode(*args, **kwargs))
        finally:
            lock.release()
        handle.check()
        return found

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Wait:
    """A wait for a lock that a failed request ends."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock
        self._acquiring = asyncio.ensure_future(lock.acquire())
        self._error: PenstockError | None = None

    @property
    def failed(self) -> bool:
        """Whether the wait has ended with an error."""
        return self._error is not None

    def fail(self, error: PenstockError) -> None:
        """End the wait, unless the lock has been acquired."""
        if self._acquiring.cancel():
            self._error = error

    async def acquire(self, handle: RequestHandle) -> None:
        """Acquire the lock. Raises any error that `handle` is failed with."""
        handle.follow(self)
        try:
            await self._acquiring
        except asyncio.CancelledError:
            if not self._acquiring.cancelled():
                self._lock.release()  # the lock was acquired just as the task ended
            if self._error is None:
                raise
            raise self._error from None


def _lower_priority() -> None:
    if sys.platform == "linux":
        # On Linux niceness is a thread's own (nice(2), "C library/kernel differences").
        os.nice(NICENESS)
