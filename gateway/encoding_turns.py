"""Long prompts take turns: one tenant's are tokenized one at a time, so that its flood leaves the threads to others."""

import asyncio
from weakref import WeakValueDictionary


class EncodingTurns:
    """A lock for each tenant that has a long prompt to tokenize now."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, tenant: str) -> asyncio.Lock:
        """The tenant's lock; it lives as long as anyone holds or awaits it."""
        lock = self._locks.get(tenant)
        if lock is None:
            lock = self._locks[tenant] = asyncio.Lock()
        return lock
