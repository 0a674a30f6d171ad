"""The sizes of pools whose version is not the stable one, as rollouts set them: records in the store.

While a rollout runs, its model is sized as if the stable version had all requests: a rollback finds room at once. The
candidate's pools have what the rollout says, and pools of any other version have nothing.
"""

from collections.abc import Collection, Mapping
from typing import Final

from gateway.config.base import Record
from gateway.scaling.sizes_of_others import records_by_model, resized
from gateway.tenancy.tenants.transactions import Storage
from replicas.controller.decision import PoolDecision

#: A hash: model -> sizes, as JSON. It is among the records of rollouts, with which it is written.
SIZES: Final = "penstock:{rollouts}:sizes"


class VersionSizes(Record, frozen=True, kw_only=True):
    """Sizes of a model's pools by its rollouts: the replicas of those in `set`, and the least of the stable version's
    in `least`, which are sized for all requests.
    """

    set: Mapping[str, int] = {}
    least: Mapping[str, int] = {}


#: Nothing is said.
NO_SIZES: Final = VersionSizes()


async def version_sizes(storage: Storage) -> dict[str, VersionSizes]:
    """Read the sizes by model; of a model whose record cannot be read, nothing is known.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    return await records_by_model(storage, SIZES, VersionSizes)


def with_sizes(
    pools: Mapping[str, PoolDecision], sizes: VersionSizes, most: Mapping[str, int], pinned: Collection[str]
) -> dict[str, PoolDecision]:
    """Return a decision's pools as the model's versions have it; `most` is what each may have at most.

    What the load asks of pools that are set, it asks of the stable version's instead. Those that an operator has
    `pinned` stay as they are.
    """
    asked = sum(pools[name].needed for name in sizes.set if name in pools)

    def size_of(name: str, pool: PoolDecision) -> tuple[int, str]:
        nonlocal asked
        if name in sizes.set:
            return min(sizes.set[name], most[name]), "Its version is not stable: its rollouts say how many."
        if name not in sizes.least:
            return pool.wanted, pool.reason
        wanted = max(pool.wanted, min(pool.needed + asked, most[name]), min(sizes.least[name], most[name]))
        asked -= max(min(asked, most[name] - pool.needed), 0)
        return wanted, pool.reason

    return resized(pools, pinned, size_of)
