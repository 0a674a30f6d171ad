"""Pools whose replicas nothing starts or stops, of a model that scales: what of them serves, as workers say. Pure."""

from collections.abc import Collection, Sequence
from statistics import fmean
from typing import Final

from gateway.fleets.listing import UNREPORTED_LOAD
from gateway.fleets.reports import Report
from replicas.controller.snapshot import PoolSnapshot
from routing.health.replica_status import ReplicaStatus, State

_SERVES: Final = (State.READY, State.RETURNING)


def fixed_pools(reports: Sequence[Report], model: str, pools: Collection[str]) -> dict[str, PoolSnapshot]:
    """Return what is ready in each of a model's `pools`, without what is known of its engines.

    A replica is ready where most of the workers that know it give it requests.
    """
    found: dict[str, dict[str, list[ReplicaStatus]]] = {pool: {} for pool in pools}
    for one in reports:
        for status in one.get(model, ()):
            if status.pool in found:
                found[status.pool].setdefault(status.id, []).append(status)
    return {pool: _snapshot([words for words in of_pool.values() if _serves(words)]) for pool, of_pool in found.items()}


def _serves(words: Sequence[ReplicaStatus]) -> bool:
    return 2 * sum(status.state in _SERVES for status in words) > len(words)


def _snapshot(ready: Sequence[Sequence[ReplicaStatus]]) -> PoolSnapshot:
    # The engine's figures are the same for all workers that receive them.
    loads = [[status for status in words if status.state not in UNREPORTED_LOAD] for words in ready]
    used = [max(map(_kv_used, words)) for words in loads]
    return PoolSnapshot(
        ready=len(ready),
        running=sum(max(status.running for status in words) for words in loads),
        waiting=sum(max(status.waiting for status in words) for words in loads),
        kv_used=fmean(used) if used else 0.0,
    )


def _kv_used(status: ReplicaStatus) -> float:
    return status.kv_blocks_used / status.kv_blocks_total if status.kv_blocks_total else 0.0
