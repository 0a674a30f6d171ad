"""Read the records of others in the store that a round of the controller of shapes needs."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from gateway.config.models.addresses import replica_name
from gateway.config.models.engine_checks import SESSIONS
from gateway.config.settings import Config
from gateway.fleets.configured import FoundReplica, configured_replicas
from gateway.fleets.discovery.registrations import Registration, registered
from gateway.fleets.drains import Drain, drains_of
from gateway.fleets.replica_specs import discovered_host, replica_spec
from gateway.fleets.reports import Report as FleetReport
from gateway.fleets.reports import found_replicas, reports
from gateway.rollouts.orders import is_under_way
from gateway.rollouts.rollout_records import read_records
from gateway.scaling.demand.demand_reports import ModelReport, demand_reports
from gateway.scaling.intents import Intent, read_intents
from gateway.scaling.learned_pools import Learned, read_learned
from gateway.scaling.shape_holds import ShapeHolds, shape_holds
from gateway.scaling.status import FRESH_SECONDS, ScalingStatus, read_status
from gateway.tenancy.tenants.transactions import DRAINS, Storage
from routing.rollouts.rollout import ENDED
from routing.transports.replica_spec import ReplicaSpec


class ShapeInputs(msgspec.Struct, kw_only=True):
    """The records of one round. `demand_age` is the age in seconds of the oldest of the reports in `demand`.

    `rollouts` are the models with one under way, with the version that it goes to.

    `scaling` is the fresh status of the controller of sizes; None: there is none now.
    """

    demand: list[Mapping[str, ModelReport]]
    demand_age: float = 0.0
    fleets: list[FleetReport]
    registrations: list[Registration]
    drains: list[Drain]
    rollouts: Mapping[str, str]
    intents: list[Intent]
    scaling: ScalingStatus | None
    holds: dict[str, ShapeHolds]
    learned: Mapping[str, Learned] = {}

    def drained(self, spec: ReplicaSpec) -> str:
        """Say who drains a replica; empty: nobody does."""
        for drain in self.drains:
            if drain.model == spec.model and drain.target in (spec.id, spec.pool):
                return f"{drain.target} is drained by {drain.actor}"
        return ""

    def kv_used(self, model: str, address: str) -> float:
        """Return the share of a replica's KV cache that is used, as a worker heard it last; 0: nobody says."""
        for one in self.fleets:
            for status in one.get(model, ()):
                if status.address == address and status.kv_blocks_total:
                    return status.kv_blocks_used / status.kv_blocks_total
        return 0.0

    def longest(self, model: str, address: str) -> int:
        """Return the KV tokens that the longest request needs which any worker has at a replica."""
        found = (status for one in self.fleets for status in one.get(model, ()) if status.address == address)
        return max((status.longest for status in found), default=0)


async def read_shape_inputs(storage: Storage, config: Config) -> ShapeInputs:
    """Read all of them.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    relaunches = any(model.reshape is not None and model.reshape.relaunch is not None for model in config.models)
    demand, fleets, registrations, drains = await asyncio.gather(
        demand_reports(storage), reports(storage), registered(storage), storage.hgetall(DRAINS)
    )
    (now, scaling), intents, holds = await asyncio.gather(
        read_status(storage), read_intents(storage), shape_holds(storage)
    )
    return ShapeInputs(
        demand=list(demand.reports),
        demand_age=demand.age,
        fleets=fleets,
        registrations=registrations,
        drains=drains_of(drains),
        rollouts=await _rollouts(storage) if config.goes_by_version else {},
        intents=intents,
        scaling=scaling if scaling is not None and now - scaling.at <= FRESH_SECONDS else None,
        holds=holds,
        learned=await read_learned(storage) if relaunches else {},
    )


def specs_of(config: Config, inputs: ShapeInputs) -> list[ReplicaSpec]:
    """Return the replicas, wherever they are known from, of models whose shapes may change."""
    wanted = {model.name for model in config.models if model.reshape is not None}
    found = [*found_replicas(inputs.fleets), *_registered(inputs.registrations)]
    indexes = {
        (model.name, pool.name): (m, p)
        for m, model in enumerate(config.models)
        for p, pool in enumerate(model.pools)
        if model.name in wanted and pool.engine in SESSIONS
    }
    specs: dict[tuple[str, str], ReplicaSpec] = {}
    for replica in configured_replicas(config, found):
        place = indexes.get((replica.model, replica.pool))
        if place is not None:
            name = replica.id.partition("/")[2]
            host = discovered_host(config.models[place[0]].pools[place[1]])
            spec = replica_spec(config, *place, name, replica.address, _no_key, host=host)
            specs.setdefault((replica.model, replica.address), spec)
    return list(specs.values())


def _registered(registrations: Sequence[Registration]) -> Iterator[FoundReplica]:
    for one in registrations:
        yield FoundReplica(one.model, one.pool, f"{one.pool}/{replica_name(one.address)}", one.address)


async def _rollouts(storage: Storage) -> dict[str, str]:
    records = await read_records(storage)
    found = {model: one.candidate for model, one in records.rollouts.items() if one.phase not in ENDED}
    for model, order in records.orders.items():
        if model not in found and is_under_way(order, records.rollouts.get(model)):
            found[model] = order.settings.to
    return found


def _no_key(source: object) -> Callable[[], None]:
    """Give no key: replicas with sessions have none."""
    return _none


def _none() -> None:
    return None
