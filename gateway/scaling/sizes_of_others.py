"""Sizes that other controllers ask for: their records in the store by model, and a decision's pools with such sizes."""

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

import msgspec

from gateway.store.unreadable import UNREADABLE
from gateway.tenancy.tenants.transactions import Storage
from replicas.controller.decision import PoolDecision

T = TypeVar("T")


async def records_by_model(storage: Storage, key: str, kind: type[T]) -> dict[str, T]:
    """Read a hash of records by model; of a model whose record cannot be read, nothing is known.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    found = {}
    for model, raw in (await storage.hgetall(key)).items():
        try:
            found[model.decode("utf-8", "backslashreplace")] = msgspec.json.decode(raw, type=kind)
        except UNREADABLE:
            continue
    return found


def resized(
    pools: Mapping[str, PoolDecision],
    pinned: Collection[str],
    size_of: Callable[[str, PoolDecision], tuple[int, str]],
) -> dict[str, PoolDecision]:
    """Return a decision's pools with the replicas, and the reason, that `size_of` gives for each.

    Pools that an operator has `pinned` stay as they are.
    """
    found = dict(pools)
    for name, pool in pools.items():
        if name not in pinned:
            wanted, reason = size_of(name, pool)
            found[name] = msgspec.structs.replace(pool, wanted=wanted, spot=min(pool.spot, wanted), reason=reason)
    return found
