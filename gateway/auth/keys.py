"""API keys: their records, their secrets and their life in the store. Only a secret's SHA-256 is ever stored."""

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, Protocol

import msgspec

from gateway.store.script import Script
from protos.errors import StoreUnavailable

PREFIX: Final = "sk-penstock-"
SECRET_BYTES: Final = 32
QUICKSTART_NAME: Final = "quickstart"

# The braces are a hash tag: in a cluster all of it lies in one slot, so that one script may touch it.
_RECORD: Final = "penstock:{keys}:sha256:"
_INDEX: Final = "penstock:{keys}:index"
_VERSION: Final = "penstock:{keys}:version"

_LONGEST_NAME: Final = 64
_MODEL = re.compile(r"[A-Za-z0-9._:/@+*?-]{1,128}")

# Every change also sets a random version, by which workers see that what they remember may be out of date. A counter
# could repeat a value after the store lost its last second; 128 random bits do not.
_CREATE = Script(
    """
redis.call('HSET', KEYS[1], 'id', ARGV[1], 'name', ARGV[2], 'models', ARGV[3], 'created_at', ARGV[4], 'revoked_at', '')
redis.call('HSET', KEYS[2], ARGV[1], ARGV[5])
redis.call('SET', KEYS[3], ARGV[6])
"""
)
_REVOKE = Script(
    """
if redis.call('HGET', KEYS[1], 'revoked_at') ~= '' then return 0 end
redis.call('HSET', KEYS[1], 'revoked_at', ARGV[1])
redis.call('SET', KEYS[2], ARGV[2])
return 1
"""
)
_DELETE = Script(
    """
redis.call('DEL', KEYS[1])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('SET', KEYS[3], ARGV[2])
"""
)


class KeyStorage(Protocol):
    """What key records need of a store; every method raises StoreUnavailable."""

    async def get(self, key: str) -> bytes | None:
        """The value of a key, or None."""

    async def hgetall(self, key: str) -> dict[bytes, bytes]:
        """All fields of a hash; empty where there is none."""

    async def hgetall_many(self, keys: Sequence[str]) -> list[dict[bytes, bytes]]:
        """All fields of many hashes, in order."""

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object:
        """Run a Lua script and give its reply."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key's public record; times are seconds since the epoch."""

    key_id: str
    name: str
    models: tuple[str, ...]
    created_at: float
    revoked_at: float | None = None
    _all_models: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_all_models", "*" in self.models)

    @property
    def revoked(self) -> bool:
        """Whether the key has been taken back."""
        return self.revoked_at is not None

    def allows(self, model: str) -> bool:
        """Whether the key may use a model; `*` and `?` in its patterns match any characters, `/` too."""
        return self._all_models or any(fnmatchcase(model, pattern) for pattern in self.models)


class AmbiguousKey(ValueError):
    """A name that several active keys have."""


class KeyStore:
    """Creates, lists, finds and revokes keys."""

    def __init__(self, storage: KeyStorage, *, now: Callable[[], float] = time.time) -> None:
        """`now` gives seconds since the epoch."""
        self._storage = storage
        self._now = now

    async def create(self, name: str, models: Sequence[str] = ("*",)) -> tuple[ApiKey, str]:
        """Make a key; gives its record and its secret, which cannot be had again.

        Raises:
            ValueError: The name or a model pattern is malformed.
            StoreUnavailable: The store did not answer; the key may exist, but nobody knows its secret.
        """
        if not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable() or not name.strip():
            raise ValueError("a key's name has 1 to 64 printable characters")
        if not models:
            raise ValueError("a key needs at least one model pattern; * is every model")
        for pattern in models:
            if not _MODEL.fullmatch(pattern):
                raise ValueError(f"{pattern!r} is not a model name or pattern (letters, digits, . _ : / @ + - * ?)")
        secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        digest = digest_of(secret.encode()).hex()
        key = ApiKey(f"key_{secrets.token_hex(6)}", name, tuple(dict.fromkeys(models)), self._now())
        await self._storage.run(
            _CREATE,
            [_RECORD + digest, _INDEX, _VERSION],
            [key.key_id, name, msgspec.json.encode(key.models), repr(key.created_at), digest, _new_version()],
        )
        return key, secret

    async def list_keys(self) -> list[ApiKey]:
        """All keys, the oldest first, revoked ones included.

        Raises:
            StoreUnavailable: The store did not answer.
        """
        return [key for key, _ in await self._all()]

    async def revoke(self, key_id_or_name: str) -> ApiKey | None:
        """Take a key back: by its id, or by its name where one active key alone has it. None: there is no such key.

        Revoking a revoked key again, by its id, changes nothing.

        Raises:
            AmbiguousKey: Several active keys have the name.
            StoreUnavailable: The store did not answer; the key may be revoked.
        """
        everything = await self._all()
        found = [entry for entry in everything if entry[0].key_id == key_id_or_name]
        found = found or [entry for entry in everything if entry[0].name == key_id_or_name and not entry[0].revoked]
        if not found:
            return None
        if len(found) > 1:
            ids = ", ".join(key.key_id for key, _ in found)
            raise AmbiguousKey(f"{len(found)} active keys are named {key_id_or_name!r}; name one by its id: {ids}")
        digest = found[0][1]
        await self._storage.run(_REVOKE, [_RECORD + digest, _VERSION], [repr(self._now()), _new_version()])
        return _record(await self._storage.hgetall(_RECORD + digest))

    async def delete_named(self, name: str) -> int:
        """Remove all keys of a name without a trace, which also ends their validity; gives how many there were.

        Raises:
            StoreUnavailable: The store did not answer; some may be gone.
        """
        doomed = [(key, digest) for key, digest in await self._all() if key.name == name]
        for key, digest in doomed:
            await self._storage.run(_DELETE, [_RECORD + digest, _INDEX, _VERSION], [key.key_id, _new_version()])
        return len(doomed)

    async def find(self, digest: bytes) -> ApiKey | None:
        """The record of the key whose secret has this SHA-256; None: there is none. Revoked keys are found too.

        Raises:
            StoreUnavailable: The store did not answer, or its record cannot be read.
        """
        fields = await self._storage.hgetall(_RECORD + digest.hex())
        return _record(fields) if fields else None

    async def version(self) -> bytes | None:
        """A value that differs after every change to any key; None before the first.

        Raises:
            StoreUnavailable: The store did not answer.
        """
        return await self._storage.get(_VERSION)

    async def _all(self) -> list[tuple[ApiKey, str]]:
        index = await self._storage.hgetall(_INDEX)
        digests = [digest.decode() for digest in index.values()]
        records = await self._storage.hgetall_many([_RECORD + digest for digest in digests])
        # A record may go between the two reads.
        entries = [(_record(fields), digest) for fields, digest in zip(records, digests, strict=True) if fields]
        return sorted(entries, key=lambda entry: (entry[0].created_at, entry[0].key_id))


async def quickstart_key(keys: KeyStore) -> str:
    """A new secret for `make up`; what an earlier run made ends here, so that such keys do not pile up.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    await keys.delete_named(QUICKSTART_NAME)
    _, secret = await keys.create(QUICKSTART_NAME)
    return secret


def digest_of(secret: bytes) -> bytes:
    """SHA-256. A secret is 256 random bits, so there is nothing for a slow, salted hash to defend."""
    return hashlib.sha256(secret).digest()


def _new_version() -> str:
    return secrets.token_hex(16)


def _record(fields: dict[bytes, bytes]) -> ApiKey:
    """Read a stored record; an unreadable one is the store's failure, never the caller's bad key."""
    try:
        return ApiKey(
            key_id=fields[b"id"].decode(),
            name=fields[b"name"].decode(),
            models=msgspec.json.decode(fields[b"models"], type=tuple[str, ...]),
            created_at=float(fields[b"created_at"]),
            revoked_at=float(fields[b"revoked_at"]) if fields[b"revoked_at"] else None,
        )
    except (KeyError, ValueError) as error:
        raise StoreUnavailable("The gateway's store holds a key record that cannot be read.") from error
