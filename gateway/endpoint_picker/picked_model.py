"""A model as the picker knows it: its endpoints, their load, and the policy that chooses among them."""

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from gateway.config.models.settings import Model
from gateway.config.network.hosts import with_port
from gateway.config.settings import Config
from gateway.endpoint_picker.prefill_side import PrefillSide, Revision, revision_of
from gateway.fleets.pool_abilities import abilities
from gateway.fleets.replica_specs import replica_specs
from gateway.models.answer_lengths import AnswerLengths
from gateway.models.build_versions import versioned_fleet
from gateway.models.media_rules import MediaRule, media_rule
from gateway.models.routing_settings import policy_settings
from gateway.scheduling.admission_queue import AdmissionQueue
from gateway.tenancy.providers.provider_keys import KeyOf
from protos.types import Role
from routing.contracts.policy import Decision, ReplicaView, RouteRequest, RoutingPolicy
from routing.dispatch.dispatch_context import DispatchContext
from routing.estimates.decode_length import QuantileDecodeLength
from routing.fleet.fleet import Fleet
from routing.fleet.versioned_fleet import VersionedFleet
from routing.policies import POLICIES
from routing.prefix.prefix_directory import PrefixDirectory
from routing.rollouts.split import Split
from routing.transports.http.origin import origin_of
from routing.transports.replica_spec import ReplicaSpec
from routing.transports.shared_parts import SharedParts

#: The transport of endpoints (routing/transports/transport_registry.py).
_ENGINE: Final = "picked"


class PickedModel:
    """One model. Its fleet's replicas are replaced through it, as `gateway.fleets.discovery` does."""

    def __init__(self, config: Config, model_index: int, worker: str, key_of: KeyOf, shared: SharedParts) -> None:
        """Needs a running event loop. Raises HeatmapError."""
        model = self.settings = config.models[model_index]
        self.name = model.name
        self.policy = _policy_of(model)
        self.prefixes = PrefixDirectory() if self.policy.uses_prefixes else None
        specs = [_picked(spec) for spec in replica_specs(config, model_index, key_of)]
        #: Endpoints as `IP:PORT`, by replica id, of all replicas that are wanted or not gone yet.
        self.endpoints: dict[str, str] = {}
        #: The revisions of those that decode what others have computed the prompt of, by replica id.
        self._decoders: dict[str, Revision] = {}
        #: The replicas whose engines tell the prompt tokens that they found in their caches.
        self.tell_cached: set[str] = set()
        self._note(specs)
        self.goes_by_version = model.names_versions
        if self.goes_by_version:
            self.fleet: Fleet = versioned_fleet(model, specs, worker, self.prefixes, shared)
        else:
            self.fleet = Fleet(specs, worker, self.prefixes, abilities=abilities(model), shared=shared)
        self.prefill = PrefillSide(
            _policy_of(model),
            lambda prefixes: Fleet((), worker, prefixes, abilities=abilities(model), shared=shared),
        )
        self.dispatch_context = DispatchContext(self.fleet, self.policy)
        self.queue = AdmissionQueue(self.fleet, self.policy, config.admission, cached=self.dispatch_context.cached)
        self.lengths = AnswerLengths(QuantileDecodeLength())
        self.media: MediaRule = media_rule(model)

    @property
    def context(self) -> int:
        """The context window in tokens."""
        return self.settings.context

    @property
    def ready(self) -> bool:
        """Whether any endpoint takes requests."""
        return self.fleet.ready

    def follow(self, stored: Split | None) -> None:
        """Send requests to the stable version of this split; None: to the configured one.

        A proxy's requests are not divided: it says of them neither tenant nor user.
        """
        if isinstance(self.fleet, VersionedFleet):
            configured = self.settings.stable_version
            holds = stored is not None and stored.configured in ("", configured)
            self.fleet.serve(self.fleet.versions.bit(stored.stable if stored is not None and holds else configured))

    def set_replicas(self, specs: Iterable[ReplicaSpec]) -> None:
        """Replace the fleet's replicas."""
        given = list(specs)
        self._note(given)
        self._decoders = {spec.id: revision_of(spec) for spec in given if spec.role is Role.DECODE}
        # Each fleet is of one kind: what decodes can do the rest as well.
        self.fleet.set_replicas(_picked(spec) for spec in given if spec.role is not Role.PREFILL)
        self.prefill.set_replicas(_picked(spec) for spec in given if spec.role is Role.PREFILL)
        self._forget({spec.id for spec in given})

    def start(self) -> None:
        """Begin to look at the endpoints."""
        for fleet in (self.fleet, self.prefill.fleet):
            fleet.start(prove_first=True)

    async def aclose(self) -> None:
        """Look at no endpoint any more."""
        await asyncio.gather(self.fleet.aclose(), self.prefill.fleet.aclose())

    def prefiller(
        self,
        route: RouteRequest,
        replica_id: str,
        inside: Callable[[Sequence[ReplicaView]], Sequence[ReplicaView]] = lambda views: views,
    ) -> Decision | None:
        """Choose who computes the prompt of a request to an endpoint, of those that `inside` leaves; None: that one."""
        revision = self._decoders.get(replica_id)
        if revision is None:
            return None
        return self.prefill.choose(route, route.cached.get(replica_id, 0), revision, inside)

    def answers(self, replica_id: str) -> bool:
        """Whether that endpoint can be reached."""
        return self.fleet.answers(replica_id) or self.prefill.fleet.answers(replica_id)

    def _forget(self, wanted: set[str]) -> None:
        """Forget what is known of replicas that are neither wanted nor there."""
        there = {status.id for fleet in (self.fleet, self.prefill.fleet) for status in fleet.statuses()}
        for id_ in self.endpoints.keys() - wanted - there:
            del self.endpoints[id_]
        self.tell_cached &= self.endpoints.keys()

    def _note(self, specs: Iterable[ReplicaSpec]) -> None:
        for spec in specs:
            origin = origin_of(spec.address)
            self.endpoints[spec.id] = with_port(origin.host, origin.port)


def _picked(spec: ReplicaSpec) -> ReplicaSpec:
    return dataclasses.replace(spec, engine=_ENGINE, role=Role.BOTH)


def _policy_of(model: Model) -> RoutingPolicy:
    return POLICIES[model.routing.policy](policy_settings(model))


class PickedModels:
    """The models by the names that requests have."""

    def __init__(self, models: Iterable[PickedModel]) -> None:
        self.all = tuple(models)
        self._by_name: dict[str, PickedModel] = {}
        for model in self.all:
            settings: Model = model.settings
            self._by_name |= dict.fromkeys((settings.name, *settings.aliases), model)

    def find(self, name: str) -> PickedModel | None:
        """Find the model of a request.

        A pool has one base model as a rule, whose adapters are names that the engine alone knows, so an only model gets
        all requests. Of several, one that names none goes to the first that has an endpoint. None: there is no such
        model.
        """
        if len(self.all) == 1:
            return self.all[0]
        if not name:
            return next((model for model in self.all if model.ready), self.all[0])
        return self._by_name.get(name)
