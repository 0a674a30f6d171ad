"""Checks that the configuration's secrets can be read in this process."""

from collections.abc import Iterator

from gateway.config.api_keys import api_key_sources
from gateway.config.settings import Config


def unusable_secrets(config: Config) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each secret that cannot be read in this process; stored keys are not checked."""
    # Deferred: it imports encryption, which a configuration without secrets does not need.
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
