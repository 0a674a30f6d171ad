"""What requests get of the store: whether any would be served while it takes no writes or is away."""

import asyncio
from collections.abc import Iterable, Set

from gateway.config.models.model_patterns import matches
from gateway.config.tenants import Tenant
from gateway.store.store_client import Store
from gateway.tenancy.auth.authenticator import Authenticator
from gateway.tenancy.auth.key_store import KeyStore
from gateway.tenancy.limits.plan import is_limited
from gateway.tenancy.tenants.tenant_directory import Directory
from protos.errors import StoreUnavailable

NO_WRITES = "The store takes no writes: requests with limits get 503 unless their tenant is fail_open."
AWAY = "The store does not answer: only requests of fail_open tenants whose keys this worker remembers are served."


class StoreUse:
    """Looks at the store as requests do; one for a worker."""

    def __init__(self, store: Store, directory: Directory, authenticator: Authenticator, models: Iterable[str]) -> None:
        self._store = store
        self._keys = KeyStore(store)
        self._directory = directory
        self._authenticator = authenticator
        self._models = tuple(models)
        #: The tenants that have keys, and the version of all keys that they were read at.
        self._with_keys: Set[str] = frozenset()
        self._version: bytes | None = None

    async def look(self) -> tuple[bool, str]:
        """Return whether requests of any tenant would be served, and what is wrong with the store, or nothing."""
        written, read = await asyncio.gather(self._store.ping(), self._keys.version(), return_exceptions=True)
        for found in (written, read):
            if isinstance(found, BaseException) and not isinstance(found, StoreUnavailable):
                raise found
        if written is None:
            return True, ""
        try:
            if isinstance(read, BaseException):
                raise read
            await self._read_tenants(read[0])
        except StoreUnavailable:
            return self._authenticator.serves_without_store, AWAY
        tenants = [tenant for tenant in self._directory.usable() if tenant.name in self._with_keys]
        return serves_without_writes(tenants, self._models), NO_WRITES

    async def _read_tenants(self, version: bytes) -> None:
        if version != self._version:
            self._with_keys, self._version = await self._keys.tenants(), version


def serves_without_writes(tenants: Iterable[Tenant], models: Iterable[str]) -> bool:
    """Whether any of these tenants may use any of the models without a reservation, or is fail_open.

    Limits of single keys are not looked at.
    """
    models = tuple(models)
    return any(
        matches(tenant.models, model) and (tenant.on_store_failure == "fail_open" or not is_limited(tenant, model))
        for tenant in tenants
        for model in models
    )
