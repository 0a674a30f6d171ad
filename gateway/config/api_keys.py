"""Providers' API keys and the key that encrypts them in the store: sources, paths and checks."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from gateway.config.models.settings import Model, Pool
from gateway.config.secrets import ApiKeySource, source_problems, with_absolute_file
from gateway.config.settings import Config


def secret_problems(config: Config) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each rule that a secret's source violates."""
    yield from source_problems(config.admin.scrape_key, "admin.scrape_key")
    for where, source in api_key_sources(config):
        yield from source_problems(source, where)
        if source.stored is not None and config.store.encryption_key is None:
            yield where, "a stored key needs store.encryption_key, with which it is encrypted"


def with_absolute_secrets(model: Model, folder: Path) -> Model:
    """Give the model with its pools' key files relative to `folder` made absolute."""
    return msgspec.structs.replace(model, pools=tuple(_absolute(pool, folder) for pool in model.pools))


def _absolute(pool: Pool, folder: Path) -> Pool:
    if pool.upstream is None:
        return pool
    given = pool.upstream.api_key
    api_key: ApiKeySource | tuple[ApiKeySource | None, ...] | None
    if isinstance(given, tuple):
        api_key = tuple(with_absolute_file(source, folder) for source in given)
    else:
        api_key = with_absolute_file(given, folder)
    return msgspec.structs.replace(pool, upstream=msgspec.structs.replace(pool.upstream, api_key=api_key))


def api_key_sources(config: Config) -> Iterator[tuple[str, ApiKeySource]]:
    """Yield (path, source) of each pool's API key."""
    for m, model in enumerate(config.models):
        for p, pool in enumerate(model.pools):
            if pool.upstream is None:
                continue
            where = f"models[{m}].pools[{p}].upstream.api_key"
            for k, source in enumerate(pool.upstream.api_keys):
                yield f"{where}[{k}]" if isinstance(pool.upstream.api_key, tuple) else where, source
