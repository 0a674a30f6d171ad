"""API keys: their secrets and their life in the store. Only a secret's SHA-256 is ever stored."""

import contextlib
import hashlib
import math
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

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
#: The name of the key that `penstock serve --quickstart` makes; nothing else may take it.
QUICKSTART_NAME: Final = "quickstart"
#: Who does what nobody asked for.
GATEWAY: Final = "gateway"

_BATCH: Final = 500

Edit = Callable[[ApiKey, float], ApiKey]
Guard = Callable[[float], Awaitable[list[Step]]]
Extension = Callable[[ApiKey], Awaitable[list[Step]]]


@dataclass(frozen=True, slots=True)
class Found:
    """The record of a key, the version of all records and the store's time, all of one moment."""

    key: ApiKey | None
    version: bytes
    now: float


@dataclass(frozen=True, slots=True)
class _Stored:
    """A record together with where it lies and how it is written there."""

    key: ApiKey
    digest: bytes
    raw: bytes

    def becomes(self, key: ApiKey | None) -> Step:
        """The step that changes the record, or removes it."""
        return Step(Place(RECORD + self.digest.decode()), self.raw, b"" if key is None else msgspec.json.encode(key))

    @property
    def unchanged(self) -> Step:
        """The step that needs the record to be as it was read."""
        return Step(Place(RECORD + self.digest.decode()), self.raw, self.raw)


class KeyStore:
    """Creates, lists, finds and changes keys; gateway/tenancy/tenants/tenant_registry.py checks them before.

    Every method raises StoreUnavailable where the store does not answer; a change may have been made all the same.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def create(
        self, request: KeyRequest, *, actor: str = GATEWAY, guard: Guard | None = None
    ) -> tuple[ApiKey, str]:
        """Make a key; gives its record and its secret, which cannot be had again.

        `guard` is given the store's time. It raises what speaks against the key, or gives what must stay as it is.

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
        """The key of an id.

        Raises:
            KeyNotFound: There is none.
        """
        return (await self._load(key_id))[0].key

    async def edit(
        self, key_id: str, edit: Edit, *, actor: str, action: str = "key.update", guard: Extension | None = None
    ) -> ApiKey:
        """Change a key's record to what `edit` makes of it, given the store's time; it may be asked more than once.

        `guard` is asked where the key is to live longer. It raises what speaks against that, or gives what must stay as
        it is.

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
            # One that is being replaced has given its name away, and may not outlive its grace beside the new one.
            longer = key.active(now) and _end(key) > _end(stored.key)
            if key.name != stored.key.name or longer:
                steps += await self._claim(key.tenant, key.name, key_id, key_id, now)
            if longer and guard is not None:
                steps += await guard(key)
            entry = Entry(actor, action, key_id, msgspec.json.encode(stored.key), msgspec.json.encode(key))
            return key if await commit(self._storage, steps, entry) else None

        return await until_committed(attempt)

    async def rotate(self, key_id: str, grace_seconds: float, *, actor: str) -> tuple[ApiKey, str]:
        """Make a key like another one, which ends after a time of grace, in seconds; gives the new one and its secret.

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
        """Take a key back, for good. Revoking a revoked key again changes nothing.

        Raises:
            KeyNotFound: There is no such key.
        """

        def revoked(key: ApiKey, now: float) -> ApiKey:
            return key if key.revoked else msgspec.structs.replace(key, revoked_at=now)

        return await self.edit(key_id, revoked, actor=actor, action="key.revoke")

    async def delete_named(self, name: str, *, actor: str = GATEWAY) -> int:
        """Remove all keys of a name, which also ends their validity; gives how many there were."""
        doomed = [stored.key.key_id for stored in await self._all() if stored.key.name == name]

        for key_id in doomed:
            # Another one may do the same at the same time.
            with contextlib.suppress(KeyNotFound):
                await until_committed(partial(self._delete, key_id, actor))
        return len(doomed)

    async def find(self, digest: bytes) -> Found:
        """The record of the key whose secret has this SHA-256, if there is one; ended keys are found too."""
        now, (version, raw) = await read(self._storage, [Place(VERSION), Place(RECORD + digest.hex())])
        return Found(_record(raw) if raw else None, version, now)

    async def find_many(self, digests: Sequence[bytes]) -> list[Found]:
        """As `find`, for many at one moment."""
        places = [Place(VERSION), *(Place(RECORD + digest.hex()) for digest in digests)]
        now, (version, *records) = await read(self._storage, places)
        return [Found(_record(raw) if raw else None, version, now) for raw in records]

    async def version(self) -> tuple[bytes, float]:
        """A value that differs after every change to any key or tenant, and the store's time."""
        now, (version,) = await read(self._storage, [Place(VERSION)])
        return version, now

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
            # A record may go between the two reads.
            found += [_Stored(_record(raw), digest, raw) for digest, raw in zip(batch, values, strict=True) if raw]
        return sorted(found, key=lambda stored: (stored.key.created_at, stored.key.key_id))

    async def _claim(self, tenant: str, name: str, key_id: str, holder_may_be: str, now: float) -> list[Step]:
        """The steps that give a tenant's name to a key, from the one key that may hold it or from an ended one."""
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
        """The steps that take its name from a key, if it holds it."""
        place = _name_place(key.tenant, key.name)
        _, (holder,) = await read(self._storage, [place])
        return [Step(place, holder, b"")] if holder == key.key_id.encode() else []


def _end(key: ApiKey) -> float:
    return math.inf if key.expires_at is None else key.expires_at


@dataclass(frozen=True, slots=True)
class _Fresh:
    """The id and the secret of a key to be."""

    key_id: str
    secret: str

    def steps(self, key: ApiKey) -> list[Step]:
        """The steps that store it."""
        digest = digest_of(self.secret.encode()).hex()
        return [
            Step(Place(INDEX, self.key_id), b"", digest.encode()),
            Step(Place(RECORD + digest), b"", msgspec.json.encode(key)),
        ]


def _fresh_secret() -> _Fresh:
    return _Fresh(f"key_{secrets.token_hex(6)}", PREFIX + secrets.token_urlsafe(SECRET_BYTES))


async def quickstart_key(keys: KeyStore) -> str:
    """A new secret for `make up`; what an earlier run made ends here, so that such keys do not pile up.

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
    """SHA-256. A secret is 256 random bits, so there is nothing for a slow, salted hash to defend."""
    return hashlib.sha256(secret).digest()


def _name_place(tenant: str, name: str) -> Place:
    # A tenant's name has no slash.
    return Place(NAMES, f"{tenant}/{name}")


def _record(raw: bytes) -> ApiKey:
    """Read a stored record; an unreadable one is the store's failure, never the caller's bad key."""
    try:
        return msgspec.json.decode(raw, type=ApiKey)
    except msgspec.DecodeError as error:
        raise StoreUnavailable("The gateway's store holds a key record that cannot be read.") from error
