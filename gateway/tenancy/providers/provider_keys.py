"""A worker's keys of providers, as they are now: a function for each source, asked when a request is sent."""

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

#: How often a worker looks for stored keys that have changed.
SYNC_SECONDS: Final = 1.0


def keyless(source: ApiKeySource | None) -> Callable[[], str | None]:
    """For fleets that ask no provider."""
    return no_key


class Hashes(Protocol):
    """What is asked of a store."""

    async def hgetall(self, key: str) -> Mapping[bytes, bytes]:
        """All fields of a hash; empty where there is none. Raises StoreUnavailable."""
        ...


class ProviderKeys:
    """While the store is away, what it said last holds."""

    def __init__(self, store: Hashes, encryption_key: SecretSource | None) -> None:
        self._store = store
        self._encryption_key = encryption_key
        self._wanted: set[str] = set()
        self._keys: dict[ApiKeySource, Callable[[], str | None]] = {}
        self._stored: dict[str, bytes] = {}  # the records that the secrets are from
        self._secrets: dict[str, Secret] = {}
        self._problems: dict[str, str] = {}
        self._away = False

    def key_of(self, source: ApiKeySource | None) -> Callable[[], str | None]:
        """What gives the key of a source whenever it is asked: None where there is no key, or none at present.

        Of one source it is the same each time, so that replicas' specifications can be compared.
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
        """Which stored keys are missing, one line each, for operators."""
        return list(self._problems.values())

    async def run(self) -> None:
        """Follow the store for ever."""
        while True:
            try:
                await self.load()
            except Exception:
                # Whatever it was: keys that are never renewed any more are worse than one look that was missed.
                log.exception("looking for changed keys of providers")
            await asyncio.sleep(SYNC_SECONDS)

    async def load(self) -> None:
        """One look at the store."""
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
            self._tell(name, self._take(name, stored.get(name.encode())))

    def _take(self, name: str, raw: bytes | None) -> str:
        """Use what the store has; gives what is wrong with it, or nothing."""
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

    def _tell(self, name: str, problem: str) -> None:
        if problem and self._problems.get(name) != problem:
            log.error("%s", problem)
        if problem:
            self._problems[name] = problem
        else:
            self._problems.pop(name, None)


class _StoredKey:
    """One of the store's keys."""

    def __init__(self, name: str, secrets: Mapping[str, Secret]) -> None:
        self._name = name
        self._secrets = secrets

    def __call__(self) -> str | None:
        secret = self._secrets.get(self._name)
        return None if secret is None else secret.reveal()


class _ReadKey:
    """The key in an environment variable or a file; of a file that cannot be used, the last one that could."""

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
            # Checked at the start; a worker that is started anew still serves what needs no such key.
            log.error("a provider's key stays as it was: %s", error)  # noqa: TRY400
        return self._last
