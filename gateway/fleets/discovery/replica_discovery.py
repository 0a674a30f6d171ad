"""Keeps this worker's fleets up to date with the replicas in the configuration, in DNS and in the store."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Protocol

from gateway.config.models.addresses import Found, dns_name, replica_name
from gateway.config.settings import Config
from gateway.fleets.discovery.dns_source import DnsSource, Lookup
from gateway.fleets.discovery.registered_pools import RegisteredPools
from gateway.fleets.discovery.registrations import Registration
from gateway.fleets.replica_specs import replica_spec, replica_specs
from gateway.tenancy.providers.provider_keys import KeyOf, keyless
from gateway.text.tokens.tokenizer import Tokenizer
from routing.transports.replica_spec import ReplicaSpec


class ReplaceableFleet(Protocol):
    """A fleet whose replicas can be replaced."""

    def set_replicas(self, specs: Iterable[ReplicaSpec]) -> None:
        """Replace the fleet's replicas."""
        ...

    def answers(self, replica_id: str) -> bool:
        """Whether that replica can be reached."""
        ...


def _ignore_change() -> None:
    """Do nothing when the replicas change."""


class Discovery:
    """Discovery for all fleets of a worker; `changed` is called whenever a fleet's replicas change."""

    def __init__(
        self,
        config: Config,
        fleets: Mapping[str, ReplaceableFleet],
        tokenizers: Mapping[str, str],
        lookup: Lookup | None = None,
        key_of: KeyOf = keyless,
        texts: Mapping[str, Tokenizer] = MappingProxyType({}),
    ) -> None:
        """`fleets` and the hashes of `tokenizers` are by model. `lookup` replaces the configured DNS lookup.

        `key_of` gives what asks for the keys of providers, and `texts` are the tokenizers themselves.
        """
        self.changed: Callable[[], None] = _ignore_change
        self._config = config
        self._fleets = fleets
        self._tokenizers = tokenizers
        self._key_of = key_of
        self._texts = texts
        self._registered = RegisteredPools(config)
        self._sources = _sources(config, lookup)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def wants_registrations(self) -> bool:
        """Whether any replicas register themselves."""
        return bool(self._registered)

    async def start(self) -> None:
        """Look up everything once, then start the tasks that repeat the lookups."""
        await asyncio.gather(*(source.look() for sources in self._sources.values() for source in sources))
        self._set(model for model, _ in self._sources)
        self._tasks = [
            asyncio.create_task(source.follow(lambda model=model: self._set([model])))  # type: ignore[misc]
            for (model, _), sources in self._sources.items()
            for source in sources
        ]

    async def aclose(self) -> None:
        """Stop all lookups."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def registered(self, replicas: Iterable[Registration]) -> None:
        """Take over the store's registrations."""
        self._set(self._registered.update(replicas, self._answers))

    def problems(self) -> list[str]:
        """The current problems, one line each; for operators, not for clients."""
        found = []
        for model in self._config.models:
            for pool in model.pools:
                where = f"model {model.name}: pool {pool.name}"
                if pool.is_registered and not self._registered.members(model.name, pool.name):
                    found.append(f"{where}: no replica has registered")
                sources = self._sources.get((model.name, pool.name), ())
                found += [f"{where}: {source.name.text}: {source.problem}" for source in sources if source.problem]
        return found

    def _answers(self, model: str, pool: str, member: Found) -> bool:
        return self._fleets[model].answers(f"{pool}/{replica_name(member.address)}")

    def _set(self, models: Iterable[str]) -> None:
        models = set(models)
        for index, model in enumerate(self._config.models):
            if model.name in models:
                self._fleets[model.name].set_replicas(self._specs(index))
        if models:
            self.changed()

    def _specs(self, model_index: int) -> list[ReplicaSpec]:
        """All replicas of a model. Of those with the same id, the first."""
        model = self._config.models[model_index]
        tokenizer, text = self._tokenizers.get(model.name, ""), self._texts.get(model.name)
        specs = {spec.id: spec for spec in replica_specs(self._config, model_index, self._key_of, tokenizer, text)}
        for pool_index, pool in enumerate(model.pools):
            sources = self._sources.get((model.name, pool.name), ())
            found = [one for source in sources for one in source.found]
            for one in [*found, *self._registered.members(model.name, pool.name)]:
                name = replica_name(one.address)
                spec = replica_spec(
                    self._config, model_index, pool_index, name, one.address, self._key_of, tokenizer, one.host, text
                )
                specs.setdefault(spec.id, spec)
        return list(specs.values())


def _sources(config: Config, lookup: Lookup | None) -> dict[tuple[str, str], list[DnsSource]]:
    """The DNS sources by model and pool."""
    found: dict[tuple[str, str], list[DnsSource]] = {}
    for model in config.models:
        for pool in model.pools:
            for name in filter(None, map(dns_name, pool.addresses)):
                if lookup is None:
                    from gateway.fleets.discovery.dns_lookup import DnsLookup  # deferred: dnspython is needed only here

                    lookup = DnsLookup(config.discovery.server)
                found.setdefault((model.name, pool.name), []).append(DnsSource(name, lookup))
    return found
