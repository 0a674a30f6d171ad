"""A worker's snapshot of all tenants in the file and in the store, replaced as a whole after a change."""

import logging
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import msgspec

from gateway.config.safety.safety_checks import policy_names
from gateway.config.settings import Config
from gateway.config.tenants import DEFAULT_TENANT, Tenant, Tier
from gateway.tenancy.tenants.transactions import TENANTS, Storage
from protos.errors import FilterFailed, StoreUnavailable

log = logging.getLogger(__name__)

_UNREADABLE = "The gateway's store holds a tenant's record that cannot be read."


class Directory:
    """Finds tenants and their tiers. A tenant in the file takes precedence over one in the store."""

    def __init__(self, storage: Storage, config: Config) -> None:
        self._storage = storage
        self._config = config
        self._policies = frozenset(policy_names(config.safety.policies))
        self._file = {tenant.name: tenant for tenant in config.tenants}
        self._warned: set[str] = set()
        #: The store's tenants, and those with the file's; None stands for an unreadable record.
        self._stored: Mapping[str, Tenant | None] = {}
        self._tenants: Mapping[str, Tenant | None] = MappingProxyType(self._with_file({}))

    async def load(self) -> None:
        """Read the store's tenants.

        Raises:
            StoreUnavailable: The store did not answer; the snapshot stays as it was.
        """
        stored: dict[str, Tenant | None] = {}
        for field, raw in (await self._storage.hgetall(TENANTS)).items():
            name = field.decode()
            try:
                stored[name] = stored_tenant(raw)
            except StoreUnavailable as error:
                stored[name] = None
                log.error("the store's record of the tenant %s cannot be read: %s", name, error.__cause__)  # noqa: TRY400
        for name in sorted(self._file.keys() & stored.keys()):
            self._warn(name, f"the tenant {name} is in the configuration file and in the store; the file's counts")
        for tenant in stored.values():
            if tenant is not None and tenant.tier is not None and self._tier(tenant)[1].name != tenant.tier:
                self._warn(
                    f"{tenant.name}/{tenant.tier}",
                    f"the tenant {tenant.name} has the tier {tenant.tier}, which the configuration file does not; "
                    "it gets the last one",
                )
            if tenant is not None and not self._has_policy(tenant):
                self._warn(
                    f"{tenant.name}//{tenant.safety}",
                    f"the tenant {tenant.name} has the safety policy {tenant.safety}, which the configuration file "
                    "does not; its requests are refused",
                )
        self._put(stored)

    def take_stored(self, other: "Directory") -> None:
        """Take over what another directory has read from the store."""
        self._put(other._stored)

    def usable(self) -> Iterator[Tenant]:
        """Yield the tenants whose requests `find` lets through."""
        return (tenant for tenant in self._tenants.values() if tenant is not None and self._has_policy(tenant))

    def find(self, name: str) -> tuple[Tenant, int, Tier] | None:
        """Find a tenant with its tier and the tier's rank; None if it does not exist.

        Raises:
            StoreUnavailable: Its record in the store cannot be read.
            FilterFailed: It names a safety policy that the file does not have.
        """
        if name not in self._tenants:
            return None
        tenant = self._tenants[name]
        if tenant is None:
            raise StoreUnavailable(_UNREADABLE)
        if not self._has_policy(tenant):
            # Other rules might permit what the named policy forbids.
            raise FilterFailed("The gateway does not have the safety policy of this API key's tenant.")
        return tenant, *self._tier(tenant)

    def _tier(self, tenant: Tenant) -> tuple[int, Tier]:
        return self._config.tier(tenant.tier)

    def _has_policy(self, tenant: Tenant) -> bool:
        return tenant.safety is None or tenant.safety in self._policies

    def _put(self, stored: Mapping[str, Tenant | None]) -> None:
        self._stored = stored
        self._tenants = MappingProxyType(self._with_file(stored))

    def _with_file(self, stored: Mapping[str, Tenant | None]) -> dict[str, Tenant | None]:
        return {DEFAULT_TENANT: Tenant(name=DEFAULT_TENANT), **stored, **self._file}

    def _warn(self, about: str, text: str) -> None:
        if about not in self._warned:
            self._warned.add(about)
            log.warning(text)


def stored_tenant(raw: bytes) -> Tenant:
    """Decode a tenant's record of the store.

    Raises:
        StoreUnavailable: It cannot be read.
    """
    try:
        return msgspec.json.decode(raw, type=Tenant)
    except msgspec.DecodeError as error:
        raise StoreUnavailable(_UNREADABLE) from error
