"""A worker's access to stored responses and conversations: the store's scripts, and the bounds."""

import logging
from collections.abc import Sequence
from typing import Final, Protocol, cast

from gateway.config.responses import Responses
from gateway.jobs.responses.packing import size, unpack
from gateway.store.lua_script import Script
from gateway.tenancy.limits.limit_scripts import base_key
from protos.errors import StoreUnavailable

log = logging.getLogger(__name__)

_UNREADABLE: Final = "The gateway's store holds a response that cannot be read."


class Storage(Protocol):
    """The store's methods that responses need; both raise StoreUnavailable."""

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object:
        """Run a Lua script and return its reply."""
        ...

    async def ping(self) -> None:
        """Check that the store takes writes."""
        ...


class ResponseSpace:
    """Runs all scripts of responses and conversations."""

    def __init__(self, storage: Storage, bounds: Responses) -> None:
        self._storage = storage
        self.bounds = bounds
        self._failed = False

    @property
    def bound(self) -> str:
        """The tenant's bound, in the scripts' form."""
        return str(self.bounds.max_tenant_bytes)

    async def run(self, script: Script, tenant: str, *arguments: str | bytes) -> object:
        """Run a script for a tenant. Raises StoreUnavailable."""
        ttl = str(round(self.bounds.ttl_seconds * 1000))
        try:
            return await self._storage.run(script, [f"{base_key(tenant)}:responses"], [ttl, *arguments])
        except StoreUnavailable:
            self._failed = True
            raise

    async def require(self) -> None:
        """Raise StoreUnavailable if the store is known to be away or full, before work whose result must be stored.

        Asks the store only after a failure: what it can still read says nothing about writes.
        """
        if self._failed:
            await self._storage.ping()
            self._failed = False


async def unpacked(stored: object) -> bytes:
    """Unpack a text of the store. Raises StoreUnavailable."""
    try:
        return await unpack(cast("bytes", stored))
    except (ValueError, TypeError) as error:
        raise StoreUnavailable(_UNREADABLE) from error


def sizes(stored: Sequence[object]) -> int:
    """Add up the unpacked bytes of texts of the store. Raises StoreUnavailable."""
    try:
        return sum(size(cast("bytes", one)) for one in stored)
    except (ValueError, TypeError) as error:
        raise StoreUnavailable(_UNREADABLE) from error
