"""Environment variables that hold secrets, which processes that need none of them do not inherit."""

import os
from collections.abc import Collection, Iterator, Mapping

import msgspec

from gateway.config.secrets import SecretSource
from gateway.config.settings import Config


def secret_variables(config: Config) -> frozenset[str]:
    """Return the variables that the configuration names for any secret."""
    return frozenset(_variables(config))


def provider_variables(config: Config) -> frozenset[str]:
    """Return those for providers' keys alone, which only workers use."""
    of_others = msgspec.structs.replace(config, models=(), safety=type(config.safety)())
    return secret_variables(config) - frozenset(_variables(of_others))


def environment_without(names: Collection[str]) -> Mapping[str, str]:
    """Return this process's environment without these variables."""
    return {name: value for name, value in os.environ.items() if name not in names}


def _variables(value: object) -> Iterator[str]:
    if isinstance(value, SecretSource):
        if value.env is not None:
            yield value.env
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _variables(getattr(value, name))
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _variables(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _variables(part)
