"""A worker's current provider keys: a function for each source, called for each request."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from gateway.config.provider_secret import Secret, SecretError, read_provider_key
from gateway.config.secrets import ApiKeySource, SecretSource
from gateway.tenancy.providers.encryption import CannotDecrypt, read_cipher
from gateway.tenancy.providers.vault import sealed_key
from gateway.tenancy.tenants.transactions import PROVIDERS
from protos.errors import StoreUnavailable
from protos.renewed import Renewed
from routing.transports.openai.settings import no_key

log = logging.getLogger(__name__)

KeyOf = Callable[[ApiKeySource | None], Callable[[], str | None]]

#: Seconds between two reads of the stored keys.
SYNC_SECONDS: Final = 1.0


def keyless(source: ApiKeySource | None) -> Callable[[], str | None]:
    """A key function for fleets without a provider."""
    return no_key


class Hashes(Protocol):
    """The store operation that provider keys need."""

    async def hgetall(self, key: str) -> Mapping[bytes, bytes]:
        """All fields of a hash; empty if it does not exist. Raises StoreUnavailable."""
        ...


class ProviderKeys:
    """The provider keys of a worker. While the store is away, the last known ones stay in use."""

    def __init__(self, store: Hashes, encryption_key: SecretSource | None) -> None:
        self._store = store
        self._encryption_key = encryption_key
        self._wanted: set[str] = set()
        self._keys: dict[ApiKeySource, Callable[[], str | None]] = {}
        self._stored: dict[str, bytes] = {}  # the records that the secrets were decrypted from
        self._secrets: dict[str, Secret] = {}
        self._problems: dict[str, str] = {}
        self._away = False

    def key_of(self, source: ApiKeySource | None) -> Callable[[], str | None]:
        """The function that gives a source's current key: None if there is none.

        It is the same object for the same source, so that replicas' specifications can be compared.
        """
        if source is None:
            return no_key
        if source not in self._keys:
            if source.stored is not None:
                self._wanted.add(source.stored)
                self._keys[source] = _StoredKey(source.stored, self._secrets)
            else:
                self._keys[source] = _ReadKey(source)
        return self._keys[source]

    @property
    def problems(self) -> list[str]:
        """The stored keys that are missing, one line each, for operators."""
        return list(self._problems.values())

    async def run(self) -> None:
        """Reload the stored keys until cancelled."""
        while True:
            try:
                await self.load()
            except Exception:
                # Any error: keys that are never renewed again are worse than one failed read.
                log.exception("looking for changed keys of providers")
            await asyncio.sleep(SYNC_SECONDS)

    async def load(self) -> None:
        """Read the stored keys once."""
        if not self._wanted:
            return
        try:
            stored = await self._store.hgetall(PROVIDERS)
        except StoreUnavailable as error:
            if not self._away:
                log.warning("stored keys of providers stay as they are: %s", error.__cause__ or error)
            self._away = True
            return
        self._away = False
        for name in sorted(self._wanted):
            self._log_problem(name, self._take(name, stored.get(name.encode())))

    def _take(self, name: str, raw: bytes | None) -> str:
        """Use a stored record; returns what is wrong with it, or nothing."""
        if raw is not None and raw == self._stored.get(name):
            return ""
        self._stored.pop(name, None)
        self._secrets.pop(name, None)
        if raw is None:
            return f"the provider key {name} is not in the store; put it there with: penstock providers set {name}"
        assert self._encryption_key is not None, "the configuration's checks see to it"
        try:
            key = sealed_key(raw)
            self._secrets[name] = read_cipher(self._encryption_key).decrypt(name, key.sealed)
        except (CannotDecrypt, SecretError, StoreUnavailable) as error:
            return f"the provider key {name} cannot be decrypted: {error}"
        self._stored[name] = raw
        log.info("the provider key %s is the one with the fingerprint %s", name, key.fingerprint)
        return ""

    def _log_problem(self, name: str, problem: str) -> None:
        if problem and self._problems.get(name) != problem:
            log.error("%s", problem)
        if problem:
            self._problems[name] = problem
        else:
            self._problems.pop(name, None)


class _StoredKey:
    """A stored provider key; calling it gives the current secret."""

    def __init__(self, name: str, secrets: Mapping[str, Secret]) -> None:
        self._name = name
        self._secrets = secrets

    def __call__(self) -> str | None:
        secret = self._secrets.get(self._name)
        return None if secret is None else secret.reveal()


class _ReadKey:
    """A provider key in an environment variable or a file; if the file becomes unusable, the last usable key stays."""

    def __init__(self, source: SecretSource) -> None:
        self._source = source
        self._last: Secret | None = None
        self._renewed = Renewed([] if source.path is None else [source.path], self._read)

    def __call__(self) -> str | None:
        secret = self._renewed.get()
        return None if secret is None else secret.reveal()

    def _read(self) -> Secret | None:
        try:
            self._last = read_provider_key(self._source)
        except SecretError as error:
            # The key was checked at the start; a restarted worker still serves what needs no such key.
            log.error("a provider's key stays as it was: %s", error)  # noqa: TRY400
        return self._last
