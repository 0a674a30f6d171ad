"""Keeps this worker's fleets up to date with the replicas of the configuration, DNS, Kubernetes and the store."""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from gateway.config.models.addresses import Found, dns_name, replica_name
from gateway.config.settings import Config
from gateway.fleets.discovery.dns_source import DnsSource, Lookup
from gateway.fleets.discovery.registered_pools import RegisteredPools
from gateway.fleets.discovery.registrations import Registration
from gateway.fleets.discovery.replica_source import ReplicaSource
from gateway.fleets.discovery.shared_endpoints import shared_endpoints
from gateway.fleets.replica_specs import replica_spec, replica_specs
from gateway.tenancy.providers.provider_keys import KeyOf, keyless
from gateway.text.tokens.tokenizer import Tokenizer
from routing.transports.replica_spec import ReplicaSpec

if TYPE_CHECKING:
    from gateway.kubernetes.api_server import ApiServer

log = logging.getLogger(__name__)


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
        last: "Discovery | None" = None,
        kept: Collection[str] = (),
        *,
        pairs: bool = False,
    ) -> None:
        """`fleets` and the hashes of `tokenizers` are by model. `lookup` replaces the configured DNS lookup.

        `key_of` gives what asks for the keys of providers, and `texts` are the tokenizers themselves. What the `last`
        one, of another configuration, has found is known here too; until `follow` it looks after the fleets of the
        `kept` models. `pairs`: the fleets make pairs of the pods of an InferencePool by their roles.
        """
        self.changed: Callable[[], None] = _ignore_change
        self._config = config
        self._fleets = fleets
        self._tokenizers = tokenizers
        self._key_of = key_of
        self._texts = texts
        self._kept = frozenset(kept)
        self._registered: RegisteredPools = RegisteredPools(config, None if last is None else last._registered)
        known: Mapping[tuple[str, str], Iterable[ReplicaSource]] = {} if last is None else last._sources
        self._looked = {source for sources in known.values() for source in sources}
        self._sources: dict[tuple[str, str], list[ReplicaSource]] = {}
        for place, source in _dns_sources(config, lookup, known):
            self._sources.setdefault(place, []).append(source)
        #: The places of pools whose replicas are pods of Kubernetes.
        self._endpoints: set[tuple[str, str]] = set()
        #: By such a place the addresses that are an earlier pool's, with that pool's place, and a line about them.
        self._shared: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
        self._taken: dict[tuple[str, str], str] = {}
        self._last = last
        self._server: ApiServer | None = None
        self._owns_server = False
        pools = [pool for model in config.models for pool in model.pools]
        if any(pool.service is not None or pool.inference_pool is not None for pool in pools):
            # Deferred: it needs an extra.
            from gateway.fleets.discovery.kubernetes_sources import configured_server, kubernetes_sources

            self._server = None if last is None else last._server
            if self._server is None:
                self._server, self._owns_server = configured_server(config), True
            found = dict(kubernetes_sources(config, self._server, pairs=pairs))
            # What watches for a fleet that stays goes on: the API server may be away just now.
            stay = {place: known[place] for place in found if place in known and place[0] in self._kept}
            self._sources |= {place: list(stay.get(place, [one])) for place, one in found.items()}
            self._endpoints = set(found)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def wants_registrations(self) -> bool:
        """Whether any replicas register themselves."""
        return bool(self._registered)

    async def start(self) -> None:
        """Look up everything once, then follow the changes."""
        await self.look()
        self.follow()

    async def look(self) -> None:
        """Look up once what was not looked up before, and give it to the fleets."""
        sources = [source for sources in self._sources.values() for source in sources]
        await asyncio.gather(*(source.look() for source in sources if source not in self._looked))
        self._set({model for model, _ in self._sources} | self._registered.models)

    def follow(self) -> None:
        """Look after all fleets from now on, and start the tasks that repeat the lookups."""
        kept, self._kept = self._kept, frozenset()
        if self._last is not None:
            self._registered.catch_up(self._last._registered)
            if self._server is self._last._server:
                # The last one is not asked for anything any more; whoever has it may close it.
                self._owns_server, self._last._owns_server = self._last._owns_server, False
            self._last = None
        self._set(kept)
        self._tasks = [
            asyncio.create_task(source.follow(lambda place=place: self._found(place)))  # type: ignore[misc]
            for place, sources in self._sources.items()
            for source in sources
        ]

    async def aclose(self) -> None:
        """Stop all lookups."""
        self.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None and self._owns_server:
            await self._server.aclose()

    def stop(self) -> None:
        """Begin to stop all lookups: nothing is given to a fleet any more."""
        self._kept = frozenset(self._fleets)
        for task in self._tasks:
            task.cancel()

    def registered(self, replicas: Iterable[Registration]) -> None:
        """Take over the store's registrations."""
        self._set(self._registered.update(replicas, self._answers))

    def problems(self) -> list[str]:
        """The current problems, one line each; for operators, not for clients."""
        found = list(self._taken.values())
        for model in self._config.models:
            for pool in model.pools:
                where = f"model {model.name}: pool {pool.name}"
                if pool.is_registered and not self._registered.members(model.name, pool.name):
                    found.append(f"{where}: no replica has registered")
                sources = self._sources.get((model.name, pool.name), ())
                found += [f"{where}: {source.text}: {source.problem}" for source in sources if source.problem]
        return found

    def _answers(self, model: str, pool: str, member: Found) -> bool:
        return self._fleets[model].answers(f"{pool}/{replica_name(member.address)}")

    def _found(self, place: tuple[str, str]) -> None:
        # What is one pool's endpoint is no other's.
        self._set({model for model, _ in self._endpoints} if place in self._endpoints else [place[0]])

    def _share(self) -> None:
        """See which endpoints are an earlier pool's, and log it when that begins."""
        if len(self._endpoints) < 2:
            return
        found = {place: [one for source in self._sources[place] for one in source.found] for place in self._endpoints}
        self._shared = shared_endpoints(self._config, found)
        before = self._taken
        self._taken = {
            (model, pool): f"model {model}: pool {pool}: {len(shared)} of its endpoints are another pool's, "
            f"as {address} is {owner}'s"
            for (model, pool), shared in self._shared.items()
            for address, (_, owner) in [next(iter(shared.items()))]
        }
        for place in self._taken.keys() - before.keys():
            log.warning("%s", self._taken[place])

    def _set(self, models: Iterable[str]) -> None:
        models = set(models) - self._kept
        self._share()
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
            place = (model.name, pool.name)
            sources, taken = self._sources.get(place, ()), self._shared.get(place, {})
            found = [one for source in sources for one in source.found if one.address not in taken]
            for one in [*found, *self._registered.members(model.name, pool.name)]:
                name = replica_name(one.address)
                spec = replica_spec(
                    self._config, model_index, pool_index, name, one.address, self._key_of, tokenizer, one.host, text
                )
                specs.setdefault(spec.id, _as_labelled(spec, one))
        return list(specs.values())


def _as_labelled(spec: ReplicaSpec, found: Found) -> ReplicaSpec:
    """Put what was found of a replica in place of what its pool says."""
    if found.near is None and found.shape is None and found.role is None:
        return spec
    return dataclasses.replace(
        spec,
        shape=found.shape or spec.shape,
        role=found.role or spec.role,
        version=found.version or spec.version,
        near=found.near,
        revision=found.revision,
    )


def _dns_sources(
    config: Config, lookup: Lookup | None, known: Mapping[tuple[str, str], Iterable[ReplicaSource]]
) -> Iterator[tuple[tuple[str, str], DnsSource]]:
    """Yield the DNS sources, each with its model and pool; those that are `known` for a name stay what they are."""
    for model in config.models:
        for pool in model.pools:
            place = model.name, pool.name
            before = {source.name: source for source in known.get(place, ()) if isinstance(source, DnsSource)}
            for name in filter(None, map(dns_name, pool.addresses)):
                if name in before:
                    yield place, before[name]
                    continue
                if lookup is None:
                    from gateway.fleets.discovery.dns_lookup import DnsLookup  # deferred: dnspython is needed only here

                    lookup = DnsLookup(config.discovery.server)
                yield place, DnsSource(name, lookup)
