"""Management of the stored provider keys, for the command line and the admin API.

Keys go in and never come out: only workers decrypt them (gateway/tenancy/providers/provider_keys.py).
"""

import logging
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from gateway.config.provider_secret import SecretError, provider_key
from gateway.config.settings import Config
from gateway.config.tenants import NAME
from gateway.store.unreadable import UNREADABLE
from gateway.tenancy.providers.encryption import CannotDecrypt, Cipher, read_cipher
from gateway.tenancy.tenants.inputs import record_of
from gateway.tenancy.tenants.transactions import PROVIDERS, Entry, Place, Step, Storage, commit, read, until_committed
from protos.errors import Conflict, InvalidRequest, ProviderKeyNotFound, StoreUnavailable

log = logging.getLogger(__name__)

_WITHOUT: Final = (
    "No encryption key is configured: name one in store.encryption_key before keys of providers are stored."
)


class ProviderKey(Record, frozen=True, kw_only=True):
    """The public part of a stored provider key."""

    name: Annotated[str, Meta(pattern=NAME, description="What `api_key: {stored: NAME}` refers to.")]
    fingerprint: Annotated[
        str, Meta(description="Tells keys apart: a hash that nobody can compute without the encryption key.")
    ]
    created_at: Annotated[float, Meta(description="By the store's clock, in seconds since 1970.")]
    created_by: str


class SealedKey(ProviderKey, frozen=True, kw_only=True):
    """A stored provider key with its ciphertext."""

    sealed: bytes

    @property
    def known(self) -> ProviderKey:
        """The public part of the record."""
        return ProviderKey(
            name=self.name, fingerprint=self.fingerprint, created_at=self.created_at, created_by=self.created_by
        )


class _Name(Record, frozen=True, kw_only=True):
    name: Annotated[str, Meta(pattern=NAME)]


class ProviderVault:
    """Manages provider keys. Methods raise StoreUnavailable; the audit trail has `actor`, such as `cli:root`."""

    def __init__(self, storage: Storage, config: Config) -> None:
        self._storage = storage
        self._source = config.store.encryption_key

    async def keys(self) -> list[ProviderKey]:
        """All keys by name, without their secrets; unreadable records are logged."""
        found = []
        for name, raw in sorted((await self._storage.hgetall(PROVIDERS)).items()):
            try:
                found.append(sealed_key(raw).known)
            except StoreUnavailable:
                shown = name.decode(errors="replace")
                log.warning("the store's record of the provider key %s cannot be read; set it anew or delete it", shown)
        return found

    async def set_key(self, name: str, text: str, actor: str) -> ProviderKey:
        """Store a key, replacing one of the same name; workers use it within 2 seconds.

        Raises:
            InvalidRequest: The name or the key is not of its form.
            Conflict: There is no encryption key, or others keep changing the same record.
        """
        record_of({"name": name}, _Name)
        try:
            secret = provider_key(text)
        except SecretError as error:
            raise InvalidRequest(f"key: {error}", param="key") from None
        cipher = self._cipher()
        sealed = cipher.encrypt(name, secret)

        async def attempt() -> ProviderKey | None:
            now, (before,) = await read(self._storage, [_place(name)])
            made = SealedKey(
                name=name, fingerprint=cipher.fingerprint(secret), created_at=now, created_by=actor, sealed=sealed
            )
            done = await self._put(made, before, Entry(actor, "provider.set", name))
            return made.known if done else None

        return await until_committed(attempt)

    async def delete_key(self, name: str, actor: str) -> None:
        """Remove a key; workers stop using it within 2 seconds.

        Raises:
            ProviderKeyNotFound: There is none of the name.
            Conflict: Others keep changing the same record.
        """

        async def attempt() -> Literal[True] | None:
            _, (before,) = await read(self._storage, [_place(name)])
            if not before:
                raise ProviderKeyNotFound(f"There is no provider key '{name[:64]}'.", param="name")
            entry = Entry(actor, "provider.delete", name, before=_known(before))
            return True if await commit(self._storage, [Step(_place(name), before, b"")], entry) else None

        await until_committed(attempt)

    async def reencrypt(self, actor: str) -> list[str]:
        """Encrypt again with the first encryption key what an older one has encrypted; returns the names.

        Raises:
            Conflict: There is no encryption key, or one of the records cannot be decrypted with those that there are.
        """
        cipher = self._cipher()
        names = [name.decode() for name in sorted(await self._storage.hgetall(PROVIDERS))]
        return [name for name in names if await self._reencrypt_one(cipher, name, actor)]

    async def _reencrypt_one(self, cipher: Cipher, name: str, actor: str) -> bool:
        async def attempt() -> bool | None:
            _, (before,) = await read(self._storage, [_place(name)])
            if not before:
                return False
            try:
                old = sealed_key(before)
                if cipher.is_current(name, old.sealed):
                    return False
                secret = cipher.decrypt(name, old.sealed)
            except (CannotDecrypt, StoreUnavailable) as error:
                raise Conflict(
                    f"The provider key '{name}' cannot be decrypted: {str(error).rstrip('.')}.", param="name"
                ) from None
            new = msgspec.structs.replace(
                old, sealed=cipher.encrypt(name, secret), fingerprint=cipher.fingerprint(secret)
            )
            return True if await self._put(new, before, Entry(actor, "provider.reencrypt", name)) else None

        return await until_committed(attempt)

    async def _put(self, key: SealedKey, before: bytes, entry: Entry) -> bool:
        audited = Entry(entry.actor, entry.action, entry.subject, _known(before), msgspec.json.encode(key.known))
        return await commit(self._storage, [Step(_place(key.name), before, msgspec.json.encode(key))], audited)

    def _cipher(self) -> Cipher:
        if self._source is None:
            raise Conflict(_WITHOUT)
        try:
            return read_cipher(self._source)
        except SecretError as error:
            # The path of a file is for operators only.
            log.warning("store.encryption_key: %s", error)
            raise Conflict("The encryption key cannot be used; the log says why.") from error


def sealed_key(raw: bytes) -> SealedKey:
    """Decode a record of the store's hash. Raises StoreUnavailable if it cannot be read."""
    try:
        return msgspec.json.decode(raw, type=SealedKey)
    except UNREADABLE as error:
        raise StoreUnavailable("The gateway's store holds a provider's key that cannot be read.") from error


def _known(raw: bytes) -> bytes:
    """The public part of a record for the audit trail; empty for an unreadable one, which can be replaced."""
    try:
        return msgspec.json.encode(sealed_key(raw).known) if raw else b""
    except StoreUnavailable:
        return b""


def _place(name: str) -> Place:
    return Place(PROVIDERS, name)
