"""How busy a replica is, for preferences that end where the preferred replicas are much busier than others."""

from collections.abc import Iterable
from math import inf

from routing.contracts.policy import ReplicaView

#: A replica is much busier than another at this multiple of its load per GPU plus this many sequences.
SPILL_FACTOR, SPILL_SEQUENCES = 2.0, 8.0
#: Tokens of waiting prompts that weigh as much as one decoding sequence.
PROMPT_TOKENS = 512


def busyness(view: ReplicaView) -> float:
    """Return sequences per GPU, waiting prompts included; infinite without a free slot."""
    load = view.load
    sequences = load.running + load.waiting + view.sent
    if view.max_batch_size and sequences >= view.max_batch_size:
        return inf
    return (sequences + (load.prefill_tokens + view.sent_prompt_tokens) / PROMPT_TOKENS) / view.shape.gpus


def spill_bound(views: Iterable[ReplicaView]) -> float:
    """Return the busyness up to which none of these replicas, at least one, is much busier than the least busy one."""
    return SPILL_FACTOR * min(map(busyness, views)) + SPILL_SEQUENCES
