"""The callers of batch requests: keys, looked up again and again, so that a revoked one stops counting."""

import time
from collections.abc import Callable
from typing import Final, Protocol

from gateway.caching.lru import Lru
from gateway.config.tenants import Tenant, Tier
from gateway.tenancy.auth.key_records import ApiKey
from gateway.tenancy.tenants.background import in_background
from gateway.tenancy.tenants.caller import Caller
from protos.errors import AuthenticationFailed, KeyExpired, KeyNotFound, TenantGone

#: How old a cached caller may be, in seconds.
FRESH_SECONDS: Final = 0.9
#: Most seconds that a batch request waits for admission: it is sent only where there is room.
_WAIT_SECONDS: Final = 0.5
_MOST: Final = 1000


class Keys(Protocol):
    """The keys in the store."""

    async def get(self, key_id: str) -> ApiKey:
        """Return a key. Raises KeyNotFound and StoreUnavailable."""
        ...


class Tenants(Protocol):
    """The known tenants."""

    def find(self, name: str) -> tuple[Tenant, int, Tier] | None:
        """Return a tenant with its tier and the tier's rank."""
        ...


class Callers:
    """The callers of one worker's batch requests."""

    def __init__(self, keys: Keys, tenants: Tenants, tiers: int, clock: Callable[[], float] = time.time) -> None:
        """`tiers` is their number; `clock` counts seconds since 1970."""
        self._keys = keys
        self._tenants = tenants
        self._rank = tiers - 1
        self._clock = clock
        self._known: Lru[str, tuple[float, Caller]] = Lru(_MOST)

    async def of(self, key_id: str) -> Caller:
        """Make the caller of a key, with the lowest tier's rank and hardly any share.

        Raises AuthenticationFailed or TenantGone where the key is no longer valid, and StoreUnavailable.
        """
        known, now = self._known.get(key_id), self._clock()
        if known is not None and now - known[0] < FRESH_SECONDS:
            return known[1]
        try:
            key = await self._keys.get(key_id)
        except KeyNotFound:
            raise AuthenticationFailed("The API key that made this batch no longer exists.") from None
        if key.revoked:
            raise AuthenticationFailed("The API key that made this batch has been revoked.")
        if key.expired(now):
            raise KeyExpired("The API key that made this batch has expired.")
        found = self._tenants.find(key.tenant)
        if found is None:
            raise TenantGone(f"The tenant '{key.tenant}' of this API key no longer exists.")
        caller = self._last(key, *found)
        if known is not None and known[1] == caller:
            caller = known[1]
        self._known.put(key_id, (now, caller))
        return caller

    def _last(self, key: ApiKey, tenant: Tenant, rank: int, tier: Tier) -> Caller:
        return in_background(Caller(key, tenant, tier, rank), self._rank, most_seconds=_WAIT_SECONDS)
