"""Long prompts are tokenized beside the event loop, in turns: one tenant's flood must not hold up the others."""

import asyncio
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from protos.errors import PenstockError
from routing.dispatch.dispatch import RequestHandle

P = ParamSpec("P")
T = TypeVar("T")

#: Tokenizing takes the CPU for milliseconds on end; with this niceness the event loop gets it first.
NICENESS: Final = 5
MAX_THREADS: Final = 4


class EncodingQueue:
    """Threads for long prompts, one prompt of each tenant at a time."""

    def __init__(self) -> None:
        threads = min(MAX_THREADS, os.cpu_count() or 1)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="encoding", initializer=_be_nice)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(
        self, handle: RequestHandle, tenant: str, encode: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """What `encode` gives, run in a thread once the tenant's earlier prompts are done.

        Raises what `attempt` is failed with: at once while it waits, and otherwise when the thread is done.
        """
        lock = self._locks.get(tenant)
        if lock is None:
            lock = self._locks[tenant] = asyncio.Lock()
        if lock.locked():
            await _Wait(lock).over(handle)
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
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Wait:
    """A wait for a lock that can be ended from outside."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock
        self._acquiring = asyncio.ensure_future(lock.acquire())
        self._error: PenstockError | None = None

    @property
    def failed(self) -> bool:
        """Whether it has been ended with an error."""
        return self._error is not None

    def fail(self, error: PenstockError) -> None:
        """End it; whoever has the lock by now does not wait."""
        if self._acquiring.cancel():
            self._error = error

    async def over(self, handle: RequestHandle) -> None:
        """Return with the lock held. Raises what `attempt` is failed with."""
        handle.follow(self)
        try:
            await self._acquiring
        except asyncio.CancelledError:
            if not self._acquiring.cancelled():
                self._lock.release()  # it came together with the task's own end
            if self._error is None:
                raise
            raise self._error from None


def _be_nice() -> None:
    if sys.platform == "linux":
        # On Linux niceness is a thread's own (nice(2), "C library/kernel differences").
        os.nice(NICENESS)
