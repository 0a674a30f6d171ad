"""The store that a configuration names: its address and its client."""

import os
from collections.abc import Iterator
from typing import Final

from gateway.config.errors import ConfigError
from gateway.config.provider_secret import SecretError, read_source
from gateway.config.secrets import SecretSource
from gateway.config.settings import Config
from gateway.config.store.address import FILE_OPTIONS, parse_address, with_password
from gateway.config.store.settings import Store as StoreSettings
from gateway.store.connections import followed_login
from gateway.store.embedded import embedded_url
from gateway.store.store_client import Store
from gateway.store.store_failure import StoreFailure
from protos.errors import StoreUnavailable

_TIMEOUT_SECONDS: Final = 1.0
#: A person waits for it, or the start of a gateway.
_TRIAL_SECONDS: Final = 2.0


def store_url(config: Config) -> str:
    """Give the `Store` address of a loaded configuration, with its password.

    Raises:
        ConfigError: The address or its password cannot be read, or the address is none. No secret is in the text.
        SocketPathError: The folder of the embedded store's socket is not this user's.
    """
    return embedded_url(config.state_dir) if config.store.embedded else external_url(config.store)


def external_url(store: StoreSettings) -> str:
    """Give the address of a store that is not embedded. Raises ConfigError."""
    url = url_as_named(store)
    address = parse_address(url)
    if store.password is None:
        return url
    if address.password is not None:
        raise ConfigError("", "store.password", "store.url has a password too; one of them is enough")
    return with_password(url, read_password(store.password))


def read_password(source: SecretSource) -> str:
    """Read the store's password. Raises ConfigError."""
    return _read(source, "store.password")


def url_as_named(store: StoreSettings) -> str:
    """Give the address of a store that is not embedded, without a password that is elsewhere. Raises ConfigError."""
    url = _read(store.url, "store.url") if isinstance(store.url, SecretSource) else store.url
    try:
        parse_address(url)
    except ValueError as error:
        raise ConfigError("", "store.url", f"{store.shown_url}: {error}") from None
    return url


def open_store(config: Config, *, timeout: float = _TIMEOUT_SECONDS) -> Store:
    """Make the client; new connections log in with what a file has by then. Raises as `store_url`."""
    url, settings = store_url(config), config.store
    if not any(isinstance(source, SecretSource) and source.file for source in (settings.url, settings.password)):
        return Store(url, timeout=timeout)
    return Store(url, timeout=timeout, login=followed_login(url, lambda: external_url(settings)))


async def store_trouble(config: Config) -> StoreFailure | None:
    """Try an external store once, and say why it cannot be used, or None. Raises ConfigError."""
    if config.store.embedded:
        return None
    store = open_store(config, timeout=_TRIAL_SECONDS)
    try:
        await store.ping()
    except StoreUnavailable as error:
        cause = error.__cause__ or error
        return cause if isinstance(cause, StoreFailure) else StoreFailure(str(cause), refused=False)
    finally:
        await store.aclose()
    return None


def unusable_store(settings: StoreSettings) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for an address or a password that cannot be read here, and for files of TLS."""
    if settings.embedded:
        return
    try:
        address = parse_address(external_url(settings))
    except ConfigError as error:
        yield error.path, error.problem
        return
    for option in FILE_OPTIONS:
        path = address.options.get(option)
        if path is not None and not os.access(str(path), os.R_OK):
            yield "store.url", f"the option {option}: {path} cannot be read"


def _read(source: SecretSource, where: str) -> str:
    try:
        text = read_source(source).strip()
    except SecretError as error:
        raise ConfigError("", where, str(error)) from None
    if not text or not text.isascii():
        raise ConfigError("", where, f"{source.shown}: expected ASCII characters")
    return text
