"""The replicas of the configuration's pools, discovered ones included, and their names for operators."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from gateway.config.models.settings import Pool
from gateway.config.settings import Config
from gateway.fleets.local_replicas import replica_addresses
from protos.errors import InvalidRequest, ReplicaNotFound
from protos.types import Role, Shape

#: Names that an error message lists.
_MOST_NAMES = 20


Source = Literal["static", "local", "dns", "registered", "kubernetes"]


class ConfiguredReplica(msgspec.Struct, frozen=True):
    """One replica of one model; its `id` is POOL/NUMBER, or POOL/HOST-PORT of a discovered one.

    `source` is where it is known from: `static` is the file, and `local` ones are started here.
    """

    model: str
    pool: str
    id: str
    address: str
    shape: Shape
    role: Role
    source: Source = "static"


class FoundReplica(msgspec.Struct, frozen=True):
    """A discovered replica in some worker's report."""

    model: str
    pool: str
    id: str
    address: str


def configured_replicas(config: Config, found: Iterable[FoundReplica] = ()) -> Iterator[ConfiguredReplica]:
    """Yield all replicas in the file's order, those of local pools included, with the discovered ones of each pool."""
    in_pools: dict[tuple[str, str], dict[str, str]] = {}
    for replica in found:
        in_pools.setdefault((replica.model, replica.pool), {}).setdefault(replica.id, replica.address)
    for model_index, model in enumerate(config.models):
        for pool_index, pool in enumerate(model.pools):
            listed: Source = "local" if pool.local_replicas else "static"
            addresses = {
                f"{pool.name}/{number}": address
                for number, address in enumerate(replica_addresses(config, model_index, pool_index))
            }
            for id_, address in addresses.items():
                yield _replica(model.name, pool, id_, address, listed)
            if pool.is_discovered:
                by_dns = pool.service is None and pool.inference_pool is None
                source: Source = "registered" if pool.is_registered else "dns" if by_dns else "kubernetes"
                for id_, address in sorted(in_pools.get((model.name, pool.name), {}).items()):
                    if id_ not in addresses:
                        yield _replica(model.name, pool, id_, address, source)


def configured_pools(config: Config) -> list[tuple[str, str]]:
    """The (model, pool) of each pool, with or without replicas."""
    return [(model.name, pool.name) for model in config.models for pool in model.pools]


def _replica(model: str, pool: Pool, id_: str, address: str, source: Source) -> ConfiguredReplica:
    return ConfiguredReplica(model, pool.name, id_, address, pool.shape.value, pool.role, source)


def model_of(
    replicas: Sequence[ConfiguredReplica], model: str | None, target: str, pools: Sequence[tuple[str, str]] = ()
) -> str:
    """Find the model whose replica or pool `target` is; `model` None: the only one that has it.

    Raises:
        ReplicaNotFound: There is no such model, or none of its replicas or pools has the name.
        InvalidRequest: Several models have it; `param` is `model`.
    """
    names = {(replica.model, name): None for replica in replicas for name in (replica.pool, replica.id)}
    names |= dict.fromkeys(pools)
    models = list(dict.fromkeys(owner for owner, _ in names))
    if model is not None and model not in models:
        raise ReplicaNotFound(f"There is no model '{model[:64]}'; there are {_listed(models)}.", param="model")
    owners = [owner for owner, name in names if name == target and model in (None, owner)]
    if not owners:
        known = list(dict.fromkeys(name for owner, name in names if model in (None, owner)))
        raise ReplicaNotFound(
            f"There is no replica or pool '{target[:64]}'; there are {_listed(known)}.",
            param="target",
        )
    if len(owners) > 1:
        raise InvalidRequest(f"model: several have '{target}': {_listed(owners)}", param="model")
    return owners[0]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"
