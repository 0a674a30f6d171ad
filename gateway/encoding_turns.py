"""Long prompts are tokenized beside the event loop, in turns: one tenant's flood must not hold up the others."""

import asyncio
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar
from weakref import WeakValueDictionary

P = ParamSpec("P")
T = TypeVar("T")

#: Tokenizing takes the CPU for milliseconds on end; with this niceness the event loop gets it first.
NICENESS: Final = 5
MAX_THREADS: Final = 4


class EncodingTurns:
    """Threads for long prompts, one prompt of each tenant at a time."""

    def __init__(self) -> None:
        threads = min(MAX_THREADS, os.cpu_count() or 1)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="encoding", initializer=_be_nice)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, tenant: str, encode: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `encode` gives, run in a thread once the tenant's earlier prompts are done."""
        lock = self._locks.get(tenant)
        if lock is None:
            lock = self._locks[tenant] = asyncio.Lock()
        async with lock:
            return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: encode(*args, **kwargs))

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _be_nice() -> None:
    if sys.platform == "linux":
        # On Linux niceness is a thread's own (nice(2), "C library/kernel differences").
        os.nice(NICENESS)
