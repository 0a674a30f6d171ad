"""Build what a model needs whose requests go by version."""

from collections.abc import Iterable

import msgspec

from gateway.config.models.settings import Model
from gateway.fleets.pool_abilities import abilities
from gateway.models.model_versions import ModelVersions
from gateway.scheduling.admission_queue import AdmissionQueue
from protos.types import Sampling
from routing.contracts.versions import VersionBits
from routing.fleet.fleet import Fleet
from routing.fleet.versioned_fleet import PinnedFleet, VersionedFleet
from routing.prefix.prefix_directory import PrefixDirectory
from routing.transports.replica_spec import ReplicaSpec
from routing.transports.shared_parts import SharedParts


def versioned_fleet(
    model: Model, specs: Iterable[ReplicaSpec], worker: str, prefixes: PrefixDirectory | None, shared: SharedParts
) -> VersionedFleet:
    """Build the model's fleet, in which its stable version serves."""
    bits = VersionBits()
    pins = {name: Sampling(**msgspec.structs.asdict(pins.sampling)) for name, pins in model.versions.items()}
    defaults = {name: sampling for name, sampling in pins.items() if sampling != Sampling()}
    kind = PinnedFleet if defaults else VersionedFleet
    fleet = kind(
        specs,
        worker,
        prefixes,
        versions=bits,
        serves=bits.bit(model.stable_version),
        abilities=abilities(model, bits),
        shared=shared,
    )
    if isinstance(fleet, PinnedFleet):
        fleet.defaults = defaults
    return fleet


def model_versions(model: Model, fleet: Fleet, queue: AdmissionQueue) -> ModelVersions:
    """Build the choice of versions over a fleet of `versioned_fleet` and its queue."""
    assert isinstance(fleet, VersionedFleet), "its model names versions"
    return ModelVersions(model, fleet.versions, fleet, queue)
