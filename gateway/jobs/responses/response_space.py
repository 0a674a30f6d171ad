"""Where one worker keeps responses and conversations: the store, as far as it is needed, and the bounds."""

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
    """What is needed of a store; both methods raise StoreUnavailable."""

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object:
        """Run a Lua script and give its reply."""
        ...

    async def ping(self) -> None:
        """Ask for a sign of life."""
        ...


class Place:
    """All scripts of gateway/responses/lua are run through it."""

    def __init__(self, storage: Storage, bounds: Responses) -> None:
        self._storage = storage
        self.bounds = bounds
        self._failed = False

    @property
    def bound(self) -> str:
        """The tenant's bound, as the scripts want it."""
        return str(self.bounds.max_tenant_bytes)

    async def run(self, script: Script, tenant: str, *arguments: str | bytes) -> object:
        """Run a script for a tenant. Raises StoreUnavailable."""
        ttl = str(round(self.bounds.ttl_seconds * 1000))
        try:
            reply = await self._storage.run(script, [f"{base_key(tenant)}:responses"], [ttl, *arguments])
        except StoreUnavailable:
            self._failed = True
            raise
        self._failed = False
        return reply

    async def require(self) -> None:
        """Before work is done that is to be kept: raises StoreUnavailable if the store is known to be away.

        Asks the store only if it did not answer the last time.
        """
        if self._failed:
            await self._storage.ping()
            self._failed = False


async def unpacked(stored: object) -> bytes:
    """A text that the store gave. Raises StoreUnavailable."""
    try:
        return await unpack(cast("bytes", stored))
    except (ValueError, TypeError) as error:
        raise StoreUnavailable(_UNREADABLE) from error


def sizes(stored: Sequence[object]) -> int:
    """The bytes of texts that the store gave, once they are unpacked. Raises StoreUnavailable."""
    try:
        return sum(size(cast("bytes", one)) for one in stored)
    except (ValueError, TypeError) as error:
        raise StoreUnavailable(_UNREADABLE) from error
