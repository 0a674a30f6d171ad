"""Secrets of the configuration that cannot be read in this process."""

from collections.abc import Iterator

from gateway.config.api_keys import api_key_sources
from gateway.config.settings import Config


def unusable_secrets(config: Config) -> Iterator[tuple[str, str]]:
    """Those that cannot be had in this process, as (path, problem); what the store has is not looked at."""
    # Here alone: they bring the encryption along, which a configuration without secrets does not need.
    from gateway.config.provider_secret import SecretError, read_provider_key
    from gateway.tenancy.providers.encryption import read_cipher

    if config.store.encryption_key is not None:
        try:
            read_cipher(config.store.encryption_key)
        except SecretError as error:
            yield "store.encryption_key", str(error)
    for where, source in api_key_sources(config):
        if source.stored is None:
            try:
                read_provider_key(source)
            except SecretError as error:
                yield where, str(error)
