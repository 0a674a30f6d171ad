"""Holds of the controller of shapes on what the controller of sizes does: records in the store that it alone writes.

They are two parts of one decision. What is held, no size is changed of: its replicas are part of a wider one, or of a
change that is under way. A wide replica serves other than what the narrow ones in its place would.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from gateway.config.base import Record
from gateway.scaling.sizes_of_others import records_by_model, resized
from gateway.tenancy.tenants.transactions import Storage
from replicas.controller.decision import PoolDecision

#: A hash: model -> what is held, as JSON. It is among the records of shapes, with which it is written.
HOLDS: Final = "penstock:{reshape}:holds"


class ShapeHolds(Record, frozen=True, kw_only=True):
    """Holds on a model's replicas and sizes. `version` grows with each change of it, and whoever heeds it says so.

    The replicas at `addresses` are neither stopped nor replaced. `lost` is how many of a pool's replicas are counted
    that are none, as they are parked on wider ones. `set` are pools' sizes, `most` bounds of others' whose GPUs those
    have.
    """

    version: int
    addresses: Sequence[str] = ()
    lost: Mapping[str, int] = {}
    set: Mapping[str, int] = {}
    most: Mapping[str, int] = {}


#: Nothing is held.
NO_HOLDS: Final = ShapeHolds(version=0)


async def shape_holds(storage: Storage) -> dict[str, ShapeHolds]:
    """Read the holds by model; of a model whose record cannot be read, nothing is known.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    return await records_by_model(storage, HOLDS, ShapeHolds)


def with_holds(
    pools: Mapping[str, PoolDecision], holds: ShapeHolds, most: Mapping[str, int], pinned: Collection[str]
) -> dict[str, PoolDecision]:
    """Return a decision's pools as shapes have it; `most` is what each may have at most.

    A decision counts a wide replica as what it serves: what is parked on it is added here. Pools that an operator has
    `pinned` stay as they are.
    """

    def size_of(name: str, pool: PoolDecision) -> tuple[int, str]:
        if name in holds.set:
            return min(holds.set[name], most[name]), "Its size follows from the shapes that were decided on."
        if not holds.lost.get(name) and name not in holds.most:
            return pool.wanted, pool.reason
        wanted = max(pool.wanted + holds.lost.get(name, 0), 0)
        return min(wanted, holds.most.get(name, most[name]), most[name]), pool.reason

    return resized(pools, pinned, size_of)
