"""Checks reports of engines for impossible values, by which no routing decision should be made."""

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


def load_problem(load: Load, info: ReplicaInfo) -> str:
    """Describe what is impossible in a load; empty where it is plausible. 0 stands for unknown."""
    if load.kv_blocks_total not in (0, info.kv_blocks_total):
        return f"kv_blocks_total is {load.kv_blocks_total}, at the session's begin {info.kv_blocks_total}"
    if not 0 <= load.kv_blocks_used <= FACTOR * (info.kv_blocks_total or MOST_TOKENS):
        return f"kv_blocks_used is {load.kv_blocks_used} of {info.kv_blocks_total}"
    if not 0 <= load.running <= FACTOR * (info.max_batch_size or MOST_REQUESTS) + 64:
        return f"running is {load.running}, with a max_batch_size of {info.max_batch_size}"
    if not 0 <= load.waiting <= MOST_REQUESTS:
        return f"waiting is {load.waiting}"
    for name, most in (("tokens_in_flight", MOST_TOKENS), ("prefill_tokens", MOST_TOKENS), ("workers", MOST_REQUESTS)):
        if not 0 <= getattr(load, name) <= most:
            return f"{name} is {getattr(load, name)}"
    if not 0 <= load.kv_blocks_reserved <= MOST_TOKENS or not 0 <= load.prefill_pairs <= MOST_PAIRS or load.steps < 0:
        return f"kv_blocks_reserved, prefill_pairs, steps: {load.kv_blocks_reserved, load.prefill_pairs, load.steps}"
    return ""


def update_problem(update: KvUpdate, info: ReplicaInfo) -> str:
    """Describe what is impossible in an update of the reusable KV blocks; empty where it is plausible."""
    hashes = len(update.stored) + len(update.removed)
    if hashes > UPDATE_FACTOR * info.kv_blocks_total + UPDATE_SLACK:
        return f"a KV update names {hashes} blocks of {info.kv_blocks_total}"
    return ""
