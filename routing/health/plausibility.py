"""Checks reports of engines for impossible values, by which no routing decision should be made."""

from math import inf
from operator import attrgetter, le
from typing import Final

from protos.types import KvUpdate, Load, ReplicaInfo

#: Upper bounds on counts of requests, tokens and (query, key) pairs on any existing hardware.
MOST_REQUESTS: Final = 1_000_000
MOST_TOKENS: Final = 10**12
MOST_PAIRS: Final = 10**18
#: Factor by which a count may exceed the replica's stated capacity: engines count at different moments of a step.
FACTOR: Final = 2
#: Bound on prefix hashes in one update: this multiple of the cache's blocks, plus a constant.
UPDATE_FACTOR: Final = 4
UPDATE_SLACK: Final = 4096
_NAMES: Final = (
    "kv_blocks_total",
    "kv_blocks_used",
    "running",
    "waiting",
    "tokens_in_flight",
    "prefill_tokens",
    "workers",
    "kv_blocks_reserved",
    "prefill_pairs",
    "steps",
)
_COUNTS: Final = attrgetter(*_NAMES)


class LoadBounds:
    """The bounds on one replica's loads, worked out once: a load comes with nearly every step."""

    __slots__ = ("_info", "_most")

    def __init__(self, info: ReplicaInfo) -> None:
        self._info = info
        self._most = (
            info.kv_blocks_total,
            FACTOR * (info.kv_blocks_total or MOST_TOKENS),
            FACTOR * (info.max_batch_size or MOST_REQUESTS) + 64,
            MOST_REQUESTS,
            MOST_TOKENS,
            MOST_TOKENS,
            MOST_REQUESTS,
            MOST_TOKENS,
            MOST_PAIRS,
            inf,
        )

    def problem(self, load: Load) -> str:
        """Describe what is impossible in a load; empty where it is plausible. 0 stands for unknown."""
        found = _COUNTS(load)
        if min(found) >= 0 and all(map(le, found, self._most)) and (found[0] == self._most[0] or not found[0]):
            return ""
        return _description(found, self._most, self._info)


def _description(found: tuple[int, ...], most: tuple[float, ...], info: ReplicaInfo) -> str:
    total, used, running = found[:3]
    if total not in (0, info.kv_blocks_total):
        return f"kv_blocks_total is {total}, at the session's begin {info.kv_blocks_total}"
    if not 0 <= used <= most[1]:
        return f"kv_blocks_used is {used} of {info.kv_blocks_total}"
    if not 0 <= running <= most[2]:
        return f"running is {running}, with a max_batch_size of {info.max_batch_size}"
    wrong = zip(_NAMES, found, most, strict=True)
    return ", ".join(f"{name} is {count}" for name, count, bound in wrong if not 0 <= count <= bound)


def update_problem(update: KvUpdate, info: ReplicaInfo) -> str:
    """Describe what is impossible in an update of the reusable KV blocks; empty where it is plausible."""
    hashes = len(update.stored) + len(update.removed)
    if hashes > UPDATE_FACTOR * info.kv_blocks_total + UPDATE_SLACK:
        return f"a KV update names {hashes} blocks of {info.kv_blocks_total}"
    return ""
