"""What can be prepared before a replica is wanted (DeepFlow, Table 2)."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final


class WeightSource(enum.Enum):
    """Where weights are loaded from.

    `disk`: a local SSD (DRAM-miss). `page_cache`: main memory (DRAM-hit). `fork`: the GPUs of a running replica, over
    the scale-up network. `slow_fork`: the same over the scale-out network.
    """

    DISK = "disk"
    PAGE_CACHE = "page_cache"
    FORK = "fork"
    SLOW_FORK = "slow_fork"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What has been prepared before a replica is wanted; by default nothing.

    `pod`: a place with its environment waits. `engine`: in it, a process with libraries and devices waits for weights
    (`penstock replica --standby`). `kv_sizes`: the KV cache's size is configured and not found by profiling.
    `dummy_request`: one is answered before the replica counts as ready. `pushed`: gateways are told, and do not poll.
    """

    pod: bool = False
    engine: bool = False
    weights: WeightSource = WeightSource.DISK
    kv_sizes: bool = False
    dummy_request: bool = False
    pushed: bool = False


COLD: Final = Preparation()
ALL: Final = Preparation(
    pod=True, engine=True, weights=WeightSource.FORK, kv_sizes=True, dummy_request=True, pushed=True
)

#: The names by which options and the configuration turn preparations on.
PREPARATIONS: Final[Mapping[str, Mapping[str, object]]] = {
    "pod": {"pod": True},
    "engine": {"engine": True},
    "page_cache": {"weights": WeightSource.PAGE_CACHE},
    "fork": {"weights": WeightSource.FORK},
    "slow_fork": {"weights": WeightSource.SLOW_FORK},
    "kv_sizes": {"kv_sizes": True},
    "dummy_request": {"dummy_request": True},
}


def preparation(names: Sequence[str]) -> Preparation:
    """Return what the names turn on; `all` is everything, and no name nothing. Raises ValueError."""
    if list(names) == ["all"]:
        return ALL
    given: dict[str, object] = {}
    for name in names:
        if name not in PREPARATIONS:
            raise ValueError(f"no preparation {name}; there are {', '.join(PREPARATIONS)}, and all of them as all")
        if clash := given.keys() & PREPARATIONS[name].keys():
            raise ValueError(f"{name} and another preparation exclude each other: both say {', '.join(clash)}")
        given |= PREPARATIONS[name]
    return Preparation(**given)  # type: ignore[arg-type]
