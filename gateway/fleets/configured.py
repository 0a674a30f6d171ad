"""The replicas that the configuration names, and what operators call them."""

from collections.abc import Iterator, Sequence

import msgspec

from gateway.config import Config
from gateway.local_replicas import replica_addresses
from protos.errors import InvalidRequest, ReplicaNotFound
from protos.types import Role, Shape

#: Names that a message lists.
_MOST_NAMES = 20


class ConfiguredReplica(msgspec.Struct, frozen=True):
    """One replica of one model; its `id` is POOL/NUMBER."""

    model: str
    pool: str
    id: str
    address: str
    shape: Shape
    role: Role


def configured_replicas(config: Config) -> Iterator[ConfiguredReplica]:
    """All of them, in the file's order, those of local pools included."""
    for model_index, model in enumerate(config.models):
        for pool_index, pool in enumerate(model.pools):
            for number, address in enumerate(replica_addresses(config, model_index, pool_index)):
                yield ConfiguredReplica(
                    model.name, pool.name, f"{pool.name}/{number}", address, pool.shape.value, pool.role
                )


def model_of(replicas: Sequence[ConfiguredReplica], model: str | None, target: str) -> str:
    """The model whose replica or pool `target` is; `model` None: the only one that has it.

    Raises:
        ReplicaNotFound: There is no such model, or none of its replicas or pools has the name.
        InvalidRequest: Several models have it; `param` is `model`.
    """
    models = list(dict.fromkeys(replica.model for replica in replicas))
    if model is not None and model not in models:
        raise ReplicaNotFound(f"There is no model '{model[:64]}'; there are {_listed(models)}.", param="model")
    of_model = [replica for replica in replicas if model in (None, replica.model)]
    owners = list(dict.fromkeys(replica.model for replica in of_model if target in (replica.id, replica.pool)))
    if not owners:
        names = [name for replica in of_model for name in (replica.pool, replica.id)]
        raise ReplicaNotFound(
            f"There is no replica or pool '{target[:64]}'; there are {_listed(list(dict.fromkeys(names)))}.",
            param="target",
        )
    if len(owners) > 1:
        raise InvalidRequest(f"model: several have '{target}': {_listed(owners)}", param="model")
    return owners[0]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"
