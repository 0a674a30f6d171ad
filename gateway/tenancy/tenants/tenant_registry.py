"""The service behind the command line and the admin API that manages tenants and keys."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import msgspec

from gateway.config.safety.safety_checks import policy_names
from gateway.config.settings import Config
from gateway.config.tenant_checks import tenant_problems
from gateway.config.tenants import DEFAULT_TENANT, Tenant
from gateway.tenancy.auth.key_checks import key_problems
from gateway.tenancy.auth.key_records import ApiKey, KeyChange, KeyRequest
from gateway.tenancy.auth.key_store import QUICKSTART_NAME, KeyStore
from gateway.tenancy.tenants.audit_trail import AuditEntry, read_audit
from gateway.tenancy.tenants.inputs import refuse
from gateway.tenancy.tenants.tenant_directory import stored_tenant
from gateway.tenancy.tenants.transactions import (
    TENANTS,
    VERSION,
    Entry,
    Place,
    Step,
    Storage,
    commit,
    read,
    until_committed,
)
from protos.errors import Conflict, InvalidRequest, TenantNotFound

LONGEST_GRACE_SECONDS: Final = 30 * 86_400.0

Source = Literal["file", "api", "built-in"]


@dataclass(frozen=True, slots=True)
class TenantEntry:
    """A tenant and its source; `shadowed`: the store has a record of the same name, which the file's overrides."""

    tenant: Tenant
    source: Source
    shadowed: bool = False


class Registry:
    """Manages tenants and keys. Methods raise StoreUnavailable, and those that change Conflict if others interfere.

    `actor` says in the audit trail who did it, such as `cli:root`. Records are given with each field of the right
    type (gateway/tenancy/tenants/inputs.py reads them so); the `param` of an InvalidRequest is the path of the field.
    """

    def __init__(self, store: Storage, config: Config) -> None:
        self._store = store
        self._config = config
        self._keys = KeyStore(store)
        self._file = {tenant.name: tenant for tenant in config.tenants}

    async def tenants(self) -> list[TenantEntry]:
        """All tenants by name, the implicit `default` included."""
        stored = {name.decode(): raw for name, raw in (await self._store.hgetall(TENANTS)).items()}
        names = {*stored, *self._file, DEFAULT_TENANT}
        return [self._entry(name, stored.get(name, b"")) for name in sorted(names)]

    async def tenant(self, name: str) -> TenantEntry:
        """Read one tenant.

        Raises:
            TenantNotFound: There is none of the name.
        """
        _, (raw,) = await read(self._store, [_place(name)])
        return self._entry(name, raw)

    async def create_tenant(self, tenant: Tenant, actor: str) -> TenantEntry:
        """Create a tenant; `default` counts as absent until it is created.

        Raises:
            Conflict: There is one of the name, in the store or in the file.
            InvalidRequest: A field contradicts another one or names what does not exist.
        """
        self._not_in_file(tenant.name)
        self._check(tenant)

        async def attempt() -> TenantEntry | None:
            _, (raw,) = await read(self._store, [_place(tenant.name)])
            if raw:
                raise Conflict(f"name: there is a tenant '{tenant.name}' already", param="name")
            return await self._put(tenant, b"", Entry(actor, "tenant.create", tenant.name))

        return await until_committed(attempt)

    async def replace_tenant(self, tenant: Tenant, actor: str) -> TenantEntry:
        """Replace a tenant's record.

        Raises:
            TenantNotFound: There is none of the name.
            Conflict: The file has it.
            InvalidRequest: A field contradicts another one or names what does not exist.
        """
        return await self.edit_tenant(tenant.name, lambda _: tenant, actor)

    async def edit_tenant(self, name: str, edit: Callable[[Tenant], Tenant], actor: str) -> TenantEntry:
        """Change a tenant to `edit(tenant)`, which may be called more than once under concurrent changes.

        Raises:
            TenantNotFound: There is none of the name.
            Conflict: The file has it.
            InvalidRequest: A field contradicts another one or names what does not exist.
        """
        self._not_in_file(name)

        async def attempt() -> TenantEntry | None:
            _, (raw,) = await read(self._store, [_place(name)])
            old = self._entry(name, raw).tenant
            new = edit(old)
            if new.name != name:
                raise InvalidRequest("name: a tenant keeps its name", param="name")
            self._check(new)
            if new == old and raw:
                return self._entry(name, raw)
            return await self._put(new, raw, Entry(actor, "tenant.update", name, msgspec.json.encode(old)))

        return await until_committed(attempt)

    async def delete_tenant(self, name: str, actor: str) -> None:
        """Delete a tenant; `default` returns to its implicit settings.

        Raises:
            TenantNotFound: There is none of the name.
            Conflict: It has active keys, the file has it, or it is the `default` that has no record.
        """
        self._not_in_file(name)

        async def attempt() -> Literal[True] | None:
            # A key that is created meanwhile changes the version, so that this change is not committed.
            now, (version, raw) = await read(self._store, [Place(VERSION), _place(name)])
            entry = self._entry(name, raw)
            if entry.source == "built-in":
                raise Conflict(f"The tenant '{name}' is built in.", param="name")
            active = sum(key.tenant == name and key.active(now) for key in await self._keys.list_keys())
            if active:
                raise Conflict(f"The tenant '{name}' has active keys ({active}); revoke them first.", param="name")
            steps = [Step(Place(VERSION), version, version), Step(_place(name), raw, b"")]
            audited = Entry(actor, "tenant.delete", name, before=raw)
            return True if await commit(self._store, steps, audited) else None

        await until_committed(attempt)

    async def keys(self, tenant: str | None = None) -> list[ApiKey]:
        """All keys, or those of one tenant; the oldest first, revoked and expired ones included."""
        return [key for key in await self._keys.list_keys() if tenant is None or key.tenant == tenant]

    async def key(self, key_id: str) -> ApiKey:
        """Read one key.

        Raises:
            KeyNotFound: There is none of the id.
        """
        return await self._keys.get(key_id)

    async def create_key(self, request: KeyRequest, actor: str) -> tuple[ApiKey, str]:
        """Create a key; returns its record and its secret, which cannot be read again.

        Raises:
            InvalidRequest: A field contradicts another one, or names what does not exist.
            Conflict: An active key of the tenant has the name.
        """
        _not_reserved(request.name)
        return await self._keys.create(request, actor=actor, guard=partial(self._key_guard, request))

    async def update_key(self, key_id: str, change: KeyChange, actor: str) -> ApiKey:
        """Change some settings of a key that is not revoked; an expired one may get a later expiry.

        Raises:
            KeyNotFound: There is no such key.
            InvalidRequest: A field contradicts another one.
            Conflict: The key is revoked, another active key of the tenant has the name, or the tenant is gone.
        """
        return await self.edit_key(key_id, lambda _: change, actor)

    async def edit_key(self, key_id: str, edit: Callable[[ApiKey], KeyChange], actor: str) -> ApiKey:
        """Change a key by `edit(key)`; `edit` may be called more than once.

        Raises:
            KeyNotFound: There is no such key.
            InvalidRequest: A field contradicts another one.
            Conflict: The key is revoked, another active key of the tenant has the name, or the tenant is gone.
        """

        def changed(key: ApiKey, now: float) -> ApiKey:
            if key.revoked:
                raise Conflict(f"{key_id} has been revoked, for good; make a new key instead.")
            new = edit(key).applied_to(key)
            if new.name != key.name:
                _not_reserved(new.name)
            refuse(key_problems(new, now if new.expires_at != key.expires_at else None))
            return new

        return await self._keys.edit(key_id, changed, actor=actor, guard=self._extension_guard)

    async def rotate_key(self, key_id: str, grace_seconds: float, actor: str) -> tuple[ApiKey, str]:
        """Create a key with a new secret and the settings of another, which expires `grace_seconds` from now.

        Raises:
            KeyNotFound: There is no such key.
            InvalidRequest: The grace is not from 0 to 30 days.
            Conflict: The key has ended or has been rotated already.
        """
        # NaN is in no range.
        if not 0 <= grace_seconds <= LONGEST_GRACE_SECONDS:
            shown = f"{grace_seconds:g}" if math.isfinite(grace_seconds) else str(grace_seconds)
            raise InvalidRequest(
                f"grace_seconds: expected 0 to {LONGEST_GRACE_SECONDS:.0f} (30 days), got {shown}",
                param="grace_seconds",
            )
        return await self._keys.rotate(key_id, grace_seconds, actor=actor)

    async def revoke_key(self, key_id: str, actor: str) -> ApiKey:
        """Revoke a key permanently; every worker refuses it within a second. Revoking it again changes nothing.

        Raises:
            KeyNotFound: There is no such key.
        """
        return await self._keys.revoke(key_id, actor=actor)

    async def now(self) -> float:
        """The store's time in seconds since the epoch, by which keys expire."""
        return (await self._keys.version())[1]

    async def audit(self, *, before: str | None = None, limit: int = 100) -> list[AuditEntry]:
        """Read the newest entries of the audit trail, or the newest ones before the entry of an id.

        Raises:
            InvalidRequest: `before` is no entry's id, or `limit` is not from 1 to 1000.
        """
        return await read_audit(self._store, before, limit)

    def _entry(self, name: str, raw: bytes) -> TenantEntry:
        """The entry of a name, where `raw` is its record in the store or empty."""
        if name in self._file:
            return TenantEntry(self._file[name], "file", shadowed=bool(raw))
        if raw:
            return TenantEntry(stored_tenant(raw), "api")
        if name == DEFAULT_TENANT:
            return TenantEntry(Tenant(name=name), "built-in")
        raise TenantNotFound(f"There is no tenant '{name[:64]}'.", param="name")

    async def _put(self, tenant: Tenant, old: bytes, entry: Entry) -> TenantEntry | None:
        raw = msgspec.json.encode(tenant)
        audited = Entry(entry.actor, entry.action, entry.subject, entry.before, raw)
        done = await commit(self._store, [Step(_place(tenant.name), old, raw)], audited)
        return TenantEntry(tenant, "api") if done else None

    def _check(self, tenant: Tenant) -> None:
        config = self._config
        tiers, policies = [tier.name for tier in config.tiers], policy_names(config.safety.policies)
        refuse(tenant_problems(tenant, tiers, config.model_names, policies))

    def _not_in_file(self, name: str) -> None:
        if name in self._file:
            raise Conflict(f"The configuration file has the tenant '{name}'; change it there.", param="name")

    async def _key_guard(self, request: KeyRequest, now: float) -> list[Step]:
        """The steps that a key's creation depends on: its tenant exists."""
        refuse(key_problems(request, now))
        steps = await self._tenant_steps(request.tenant)
        if steps is None:
            raise InvalidRequest(f"tenant: there is no tenant '{request.tenant[:64]}'", param="tenant")
        return steps

    async def _extension_guard(self, key: ApiKey) -> list[Step]:
        """The steps that a later expiry depends on: a tenant whose keys had all ended may have been deleted."""
        steps = await self._tenant_steps(key.tenant)
        if steps is None:
            raise Conflict(
                f"expires_at: the key's tenant '{key.tenant}' is gone; create it again, or make a key of another one",
                param="expires_at",
            )
        return steps

    async def _tenant_steps(self, tenant: str) -> list[Step] | None:
        """The steps that depend on a tenant's existence; None if it does not exist."""
        if tenant in self._file or tenant == DEFAULT_TENANT:
            return []
        _, (raw,) = await read(self._store, [_place(tenant)])
        return [Step(_place(tenant), raw, raw)] if raw else None


def _place(name: str) -> Place:
    return Place(TENANTS, name)


def _not_reserved(name: str) -> None:
    if name == QUICKSTART_NAME:
        raise InvalidRequest(
            f"name: '{QUICKSTART_NAME}' is kept for the key that penstock serve --quickstart makes", param="name"
        )
