"""Environment variables that hold secrets, which processes that need none of them do not inherit."""

import os
from collections.abc import Collection, Iterator, Mapping

import msgspec

from gateway.config.secrets import SecretSource
from gateway.config.settings import Config


def secret_variables(config: Config) -> frozenset[str]:
    """Return the variables that the configuration names for any secret."""
    return frozenset(_variables(config))


def unset_variables(config: Config) -> list[str]:
    """Return those that are not set, or empty, in this process, but none of an admin API that is off."""
    used = config if config.admin.enabled else msgspec.structs.replace(config, admin=type(config.admin)())
    return sorted(name for name in secret_variables(used) if not os.environ.get(name))


def provider_variables(config: Config) -> frozenset[str]:
    """Return those for providers' keys alone, which only workers use, and whoever asks upstreams beside them."""
    of_others = msgspec.structs.replace(config, models=(), safety=type(config.safety)())
    return secret_variables(config) - frozenset(_variables(of_others))


def hook_environment(config: Config, given: Collection[str], late: "LateSecrets") -> Mapping[str, str]:
    """Return the environment of an operator's command: this process's without all secrets but those it is `given`."""
    kept = {name: os.environ[name] for name in given if name in os.environ}
    return ChildEnvironment(secret_variables(config), late, kept)


def hook_variables(config: Config) -> frozenset[str]:
    """Return those that the configuration gives to any command of launchers."""
    launchers = config.launchers
    hooks = (launchers.command, launchers.spot_prices)
    return frozenset(name for hook in hooks if hook is not None for name in hook.secrets)


def version_variables(config: Config) -> frozenset[str]:
    """Return those for the upstreams of models that go by version, whose candidates the controller warms up."""
    return frozenset(name for model in config.models if model.names_versions for name in _variables(model))


def environment_without(names: Collection[str]) -> Mapping[str, str]:
    """Return this process's environment without these variables."""
    return {name: value for name, value in os.environ.items() if name not in names}


class LateSecrets:
    """The variables that configurations have named for secrets since this process began.

    They are those of providers: what names any other one wants a restart.
    """

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()
        #: Those of them that the controller needs, for the upstreams of models that go by version.
        self.for_versions: frozenset[str] = frozenset()

    def note(self, config: Config) -> None:
        """Note those of a configuration that this process is about to take."""
        self.names |= provider_variables(config)
        self.for_versions |= version_variables(config)


class ChildEnvironment(Mapping[str, str]):
    """The environment of a process that is started now: this process's, without some variables and all late secrets."""

    def __init__(
        self,
        without: Collection[str],
        late: LateSecrets,
        more: Mapping[str, str] | None = None,
        *,
        for_versions: bool = False,
    ) -> None:
        """`more` are variables of its own; `for_versions`: it keeps the late secrets that the controller needs."""
        self._without = frozenset(without)
        self._for_versions = for_versions
        self._late = late
        self._more = dict(more or {})

    def __getitem__(self, name: str) -> str:
        if name in self._more:
            return self._more[name]
        if name in self._withheld():
            raise KeyError(name)
        return os.environ[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**environment_without(self._withheld()), **self._more})

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _withheld(self) -> frozenset[str]:
        late = self._late
        return self._without | (late.names - late.for_versions if self._for_versions else late.names)


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
