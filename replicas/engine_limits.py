"""Limits of one engine: what it may hold and compute at a time, and how it admits requests."""

import enum
from dataclasses import dataclass

from replicas.kv_cache import TOKENS_PER_BLOCK


class CapacityPolicy(enum.Enum):
    """TensorRT-LLM's capacity schedulers: admit for the worst case, or admit for now and pause when blocks run out."""

    GUARANTEED_NO_EVICT = "GUARANTEED_NO_EVICT"
    MAX_UTILIZATION = "MAX_UTILIZATION"


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes of one engine; the defaults are TensorRT-LLM's."""

    kv_blocks: int
    tokens_per_block: int = TOKENS_PER_BLOCK
    max_batch_size: int = 2048
    max_num_tokens: int = 8192
    policy: CapacityPolicy = CapacityPolicy.GUARANTEED_NO_EVICT

    def __post_init__(self) -> None:
        if not 1 <= self.max_batch_size <= self.max_num_tokens:
            raise ValueError("max_batch_size must be at least 1 and at most max_num_tokens")

    @property
    def kv_tokens(self) -> int:
        """Token capacity of the cache: no sequence can be longer."""
        return self.kv_blocks * self.tokens_per_block
