"""What one replica of each pool serves, where its step times are known and where they are not."""

from collections.abc import Mapping
from math import inf

from replicas.controller.capacity import GRID, ReplicaCapacity, replica_capacity
from replicas.controller.memory import Memory
from replicas.controller.pool_state import PoolState
from replicas.controller.scaling_settings import Slo
from replicas.controller.workload import Workload


def pool_capacities(
    states: Mapping[str, PoolState], workload: Workload | None, slo: Slo, memory: Memory
) -> dict[str, ReplicaCapacity]:
    """Return what a replica of each pool serves; nothing where neither step times nor what was served says anything.

    A shape without step times counts as the nearest of its role that has some, by its GPUs. Where a role has none, all
    pools go by the rate per GPU that was served in time.
    """
    known: dict[str, ReplicaCapacity] = {}
    if workload is not None:
        for name, state in states.items():
            times = state.snapshot.step_times
            if times is not None:
                known[name] = replica_capacity(state.settings.role, state.snapshot, times, workload, slo)
    capacities: dict[str, ReplicaCapacity] = {}
    for name, state in states.items():
        like = name if name in known else _nearest(state, states, known)
        if like is None:
            return _observed(states, memory.served)
        factor = state.settings.shape.gpus / states[like].settings.shape.gpus
        capacities[name] = (
            known[like] if like == name else known[like].times(factor, f"those of pool {like} and its GPUs")
        )
    return capacities


def _nearest(state: PoolState, states: Mapping[str, PoolState], known: Mapping[str, ReplicaCapacity]) -> str | None:
    gpus = state.settings.shape.gpus
    alike = [name for name in known if states[name].settings.role is state.settings.role]
    return min(alike, key=lambda name: (abs(states[name].settings.shape.gpus - gpus), name), default=None)


def _observed(states: Mapping[str, PoolState], per_gpu: float) -> dict[str, ReplicaCapacity]:
    if per_gpu <= 0:
        return {}
    return {
        name: ReplicaCapacity(
            slots=1.0,
            answer_seconds=0.0,
            prompt_seconds=0.0,
            slack=inf,
            rates=tuple(per_gpu * state.settings.shape.gpus * part / GRID for part in range(GRID + 1)),
            bound="what was served",
            source="what was served in time",
        )
        for name, state in states.items()
    }
