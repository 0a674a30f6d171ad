"""API keys in the store: creation, lookup, change and rotation. Only a secret's SHA-256 is stored."""

import contextlib
import hashlib
import math
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

import msgspec

from gateway.store.lua_script import Script
from gateway.tenancy.auth.key_records import ApiKey, KeyChange, KeyRequest
from gateway.tenancy.tenants.transactions import (
    INDEX,
    NAMES,
    RECORD,
    VERSION,
    Entry,
    Place,
    Step,
    Storage,
    commit,
    read,
    until_committed,
)
from protos.errors import Conflict, KeyNotFound, StoreUnavailable

__all__ = ["PREFIX", "QUICKSTART_NAME", "ApiKey", "Found", "KeyChange", "KeyRequest", "KeyStore", "digest_of"]

PREFIX: Final = "sk-penstock-"
SECRET_BYTES: Final = 32
#: The name of the key that `penstock serve --quickstart` creates; reserved for it.
QUICKSTART_NAME: Final = "quickstart"
#: The audit trail's actor for changes that nobody requested.
GATEWAY: Final = "gateway"

_BATCH: Final = 500
_TENANTS: Final = Script.load("gateway.tenancy.auth", "lua/tenants.lua")

Edit = Callable[[ApiKey, float], ApiKey]
Guard = Callable[[float], Awaitable[list[Step]]]
Extension = Callable[[ApiKey], Awaitable[list[Step]]]


@dataclass(frozen=True, slots=True)
class Found:
    """A key's record, the version of all records and the store's time, all read atomically."""

    key: ApiKey | None
    version: bytes
    now: float


@dataclass(frozen=True, slots=True)
class _Stored:
    """A record with its place and its stored form."""

    key: ApiKey
    digest: bytes
    raw: bytes

    def becomes(self, key: ApiKey | None) -> Step:
        """The step that changes the record, or removes it."""
        return Step(Place(RECORD + self.digest.decode()), self.raw, b"" if key is None else msgspec.json.encode(key))

    @property
    def unchanged(self) -> Step:
        """The step that requires the record to be unchanged."""
        return Step(Place(RECORD + self.digest.decode()), self.raw, self.raw)


class KeyStore:
    """Creates, lists, finds and changes keys; gateway/tenancy/tenants/tenant_registry.py validates the changes.

    Every method raises StoreUnavailable where the store does not answer; a change may have been made all the same.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def create(
        self, request: KeyRequest, *, actor: str = GATEWAY, guard: Guard | None = None
    ) -> tuple[ApiKey, str]:
        """Create a key; returns its record and its secret, which cannot be read again.

        `guard` is called with the store's time; it raises an error or returns steps that the change depends on.

        Raises:
            Conflict: An active key of the tenant has the name.
        """
        fresh = _fresh_secret()

        async def attempt() -> ApiKey | None:
            _, now = await self.version()
            guarded = [] if guard is None else await guard(now)
            claim = await self._claim(request.tenant, request.name, fresh.key_id, "", now)
            key = ApiKey(
                key_id=fresh.key_id,
                created_at=now,
                **{name: getattr(request, name) for name in request.__struct_fields__},
            )
            entry = Entry(actor, "key.create", key.key_id, after=msgspec.json.encode(key))
            done = await commit(self._storage, [*guarded, *claim, *fresh.steps(key)], entry)
            return key if done else None

        return await until_committed(attempt), fresh.secret

    async def list_keys(self) -> list[ApiKey]:
        """All keys, the oldest first, revoked and expired ones included."""
        return [stored.key for stored in await self._all()]

    async def get(self, key_id: str) -> ApiKey:
        """Read a key by id.

        Raises:
            KeyNotFound: There is none.
        """
        return (await self._load(key_id))[0].key

    async def edit(
        self, key_id: str, edit: Edit, *, actor: str, action: str = "key.update", guard: Extension | None = None
    ) -> ApiKey:
        """Change a key's record to `edit(key, store's time)`, which may be called more than once.

        `guard` is called if the expiry moves later; it raises an error or returns steps that the change depends on.

        Raises:
            KeyNotFound: There is no such key.
            Conflict: Another active key of the tenant has the name.
        """

        async def attempt() -> ApiKey | None:
            stored, now = await self._load(key_id)
            key = edit(stored.key, now)
            if key == stored.key:
                return key
            steps = [stored.becomes(key)]
            if key.name != stored.key.name:
                steps += await self._release(stored.key)
            # A key that is being replaced has passed its name on, and may not outlive its grace period.
            longer = key.active(now) and _end(key) > _end(stored.key)
            if key.name != stored.key.name or longer:
                steps += await self._claim(key.tenant, key.name, key_id, key_id, now)
            if longer and guard is not None:
                steps += await guard(key)
            entry = Entry(actor, action, key_id, msgspec.json.encode(stored.key), msgspec.json.encode(key))
            return key if await commit(self._storage, steps, entry) else None

        return await until_committed(attempt)

    async def rotate(self, key_id: str, grace_seconds: float, *, actor: str) -> tuple[ApiKey, str]:
        """Create a key like another, which expires after `grace_seconds`; returns the new record and its secret.

        Raises:
            KeyNotFound: There is no such key.
            Conflict: It has ended, or has been rotated already.
        """
        fresh = _fresh_secret()

        async def attempt() -> ApiKey | None:
            stored, now = await self._load(key_id)
            old = stored.key
            if not old.active(now):
                raise Conflict(f"{key_id} has {'been revoked' if old.revoked else 'expired'}; make a new key instead.")
            claim = await self._claim(old.tenant, old.name, fresh.key_id, key_id, now)
            ends = now + grace_seconds if old.expires_at is None else min(old.expires_at, now + grace_seconds)
            ending = msgspec.structs.replace(old, expires_at=ends)
            new = msgspec.structs.replace(
                old, key_id=fresh.key_id, created_at=now, replaces=key_id, lineage=old.lineage or key_id
            )
            after = msgspec.json.encode({"replaced": ending, "replacement": new})
            entry = Entry(actor, "key.rotate", key_id, msgspec.json.encode(old), after)
            done = await commit(self._storage, [*claim, stored.becomes(ending), *fresh.steps(new)], entry)
            return new if done else None

        return await until_committed(attempt), fresh.secret

    async def revoke(self, key_id: str, *, actor: str) -> ApiKey:
        """Revoke a key permanently. Revoking a revoked key again changes nothing.

        Raises:
            KeyNotFound: There is no such key.
        """

        def revoked(key: ApiKey, now: float) -> ApiKey:
            return key if key.revoked else msgspec.structs.replace(key, revoked_at=now)

        return await self.edit(key_id, revoked, actor=actor, action="key.revoke")

    async def delete_named(self, name: str, *, actor: str = GATEWAY) -> int:
        """Delete all keys of a name; returns how many there were."""
        doomed = [stored.key.key_id for stored in await self._all() if stored.key.name == name]

        for key_id in doomed:
            # Another process may do the same at the same time.
            with contextlib.suppress(KeyNotFound):
                await until_committed(partial(self._delete, key_id, actor))
        return len(doomed)

    async def find(self, digest: bytes) -> Found:
        """Find the key whose secret has this SHA-256; ended keys are found too."""
        now, (version, raw) = await read(self._storage, [Place(VERSION), Place(RECORD + digest.hex())])
        return Found(_record(raw) if raw else None, version, now)

    async def find_many(self, digests: Sequence[bytes]) -> list[Found]:
        """Find many keys, all read atomically."""
        places = [Place(VERSION), *(Place(RECORD + digest.hex()) for digest in digests)]
        now, (version, *records) = await read(self._storage, places)
        return [Found(_record(raw) if raw else None, version, now) for raw in records]

    async def version(self) -> tuple[bytes, float]:
        """The version, which differs after every change to any key or tenant, and the store's time."""
        now, (version,) = await read(self._storage, [Place(VERSION)])
        return version, now

    async def tenants(self) -> frozenset[str]:
        """The tenants that have keys, ended ones included."""
        found = cast("list[bytes]", await self._storage.run(_TENANTS, [NAMES], []))
        return frozenset(map(bytes.decode, found))

    async def _delete(self, key_id: str, actor: str) -> ApiKey | None:
        stored, _ = await self._load(key_id)
        index = Step(Place(INDEX, key_id), stored.digest, b"")
        steps = [stored.becomes(None), index, *await self._release(stored.key)]
        entry = Entry(actor, "key.delete", key_id, msgspec.json.encode(stored.key))
        return stored.key if await commit(self._storage, steps, entry) else None

    async def _load(self, key_id: str) -> tuple[_Stored, float]:
        _, (digest,) = await read(self._storage, [Place(INDEX, key_id)])
        now, (raw,) = await read(self._storage, [Place(RECORD + digest.decode())])
        if not digest or not raw:
            raise KeyNotFound(f"There is no key with the id '{key_id[:64]}'.")
        return _Stored(_record(raw), digest, raw), now

    async def _all(self) -> list[_Stored]:
        digests = list((await self._storage.hgetall(INDEX)).values())
        found = []
        for start in range(0, len(digests), _BATCH):
            batch = digests[start : start + _BATCH]
            _, values = await read(self._storage, [Place(RECORD + digest.decode()) for digest in batch])
            # A record may be deleted between the two reads.
            found += [_Stored(_record(raw), digest, raw) for digest, raw in zip(batch, values, strict=True) if raw]
        return sorted(found, key=lambda stored: (stored.key.created_at, stored.key.key_id))

    async def _claim(self, tenant: str, name: str, key_id: str, holder_may_be: str, now: float) -> list[Step]:
        """The steps that give a tenant's key name to a key, from the given holder or from an ended key."""
        place = _name_place(tenant, name)
        _, (holder,) = await read(self._storage, [place])
        steps = [Step(place, holder, key_id.encode())]
        if holder and holder != holder_may_be.encode():
            try:
                stored, _ = await self._load(holder.decode())
            except KeyNotFound:
                return steps
            if stored.key.active(now):
                raise Conflict(
                    f"name: {stored.key.key_id}, an active key of the tenant '{tenant}', has it already", param="name"
                )
            steps.append(stored.unchanged)
        return steps

    async def _release(self, key: ApiKey) -> list[Step]:
        """The steps that release a key's name, if the key holds it."""
        place = _name_place(key.tenant, key.name)
        _, (holder,) = await read(self._storage, [place])
        return [Step(place, holder, b"")] if holder == key.key_id.encode() else []


def _end(key: ApiKey) -> float:
    return math.inf if key.expires_at is None else key.expires_at


@dataclass(frozen=True, slots=True)
class _Fresh:
    """The id and the secret of a new key."""

    key_id: str
    secret: str

    def steps(self, key: ApiKey) -> list[Step]:
        """The steps that store the new key."""
        digest = digest_of(self.secret.encode()).hex()
        return [
            Step(Place(INDEX, self.key_id), b"", digest.encode()),
            Step(Place(RECORD + digest), b"", msgspec.json.encode(key)),
        ]


def _fresh_secret() -> _Fresh:
    return _Fresh(f"key_{secrets.token_hex(6)}", PREFIX + secrets.token_urlsafe(SECRET_BYTES))


async def quickstart_key(keys: KeyStore) -> str:
    """Create a key for `make up` and delete those of earlier runs, so that they do not accumulate; returns the secret.

    Raises:
        StoreUnavailable: The store did not answer.
        Conflict: Others on the same store make one again and again.
    """

    async def attempt() -> str | None:
        await keys.delete_named(QUICKSTART_NAME)
        try:
            return (await keys.create(KeyRequest(name=QUICKSTART_NAME, explain=True)))[1]
        except Conflict:
            return None

    return await until_committed(attempt)


def digest_of(secret: bytes) -> bytes:
    """The SHA-256 of a secret; its 256 random bits need no slow, salted hash."""
    return hashlib.sha256(secret).digest()


def _name_place(tenant: str, name: str) -> Place:
    # A tenant's name contains no slash.
    return Place(NAMES, f"{tenant}/{name}")


def _record(raw: bytes) -> ApiKey:
    """Decode a stored record; an unreadable one is the store's failure, and does not make the caller's key invalid."""
    try:
        return msgspec.json.decode(raw, type=ApiKey)
    except msgspec.DecodeError as error:
        raise StoreUnavailable("The gateway's store holds a key record that cannot be read.") from error
