"""The cost of changing the TP degree of running replicas: KV pages by head, and the feed-forward weights.

The terms are those of "Amoeba" (arXiv 2509.19729, sections 4.1 and 4.2). Its figures give the constants, all of which
are chosen so that a 32B model in BF16 on 96 GB GPUs takes what the paper says: 522 to 2,240 ms for the KV cache moved
head by head, 611 to 696 ms for weights whose kept part goes through the host, 18.9 to 42.2 % less with padded weights,
and at most 67.6 % less with moves that overlap steps.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from replicas.kv_cache import TOKENS_PER_BLOCK
from replicas.profiles import Gpu, ModelProfile
from replicas.timing import FITTED

#: Share of the weights that is repartitioned, those of the feed-forward matrices; the others stay on every GPU whole.
FEED_FORWARD: Final = 0.88
#: Seconds to move one layer of one KV block, beside what its bytes take: head by head, and a page at a time.
HEAD_SECONDS: Final = 10e-6
PAGE_SECONDS: Final = 5.8e-6
#: Share of the moves that steps wait for where moves and steps overlap.
EXPOSED: Final = 0.5
#: Bytes per second between a GPU and its host, each way.
HOST_RATE: Final = 25e9
#: Layers whose move is put into one step where they are staggered.
LAYERS_A_STEP: Final = 2


class Method(Enum):
    """How an engine moves what a change needs moved."""

    #: KV head by head, weights through the host; nothing runs meanwhile.
    NAIVE = "naive"
    #: KV by pages, weights through the host; nothing runs meanwhile.
    PAGED = "paged"
    #: KV by pages, weights padded so that those that are kept stay where they are; nothing runs meanwhile.
    PADDED = "padded"
    #: The same, a few layers with each step.
    OVERLAPPED = "overlapped"


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one change: `seconds` that steps are held up, in all, over `steps` of them; bytes that a GPU sends.

    `extra_bytes` is memory that a GPU needs beside weights and KV while it runs.
    """

    seconds: float
    steps: int
    sent_bytes: float
    extra_bytes: float


def cost_of(
    model: ModelProfile, gpu: Gpu, before: int, after: int, kv_tokens: int, method: Method = Method.OVERLAPPED
) -> Cost:
    """Return the cost of going from TP `before` to TP `after` on max(before, after) GPUs.

    `kv_tokens` are those of the fullest replica among the narrower ones, before a merge or after a split. Raises
    ValueError for degrees that are no different powers of two.
    """
    for degree in (before, after):
        if degree < 1 or degree & (degree - 1):
            raise ValueError(f"TP{degree} is no power of two")
    if before == after:
        raise ValueError(f"TP{before} is what it was")
    narrow, wide = min(before, after), max(before, after)
    link = gpu.link_rate * FITTED.link_efficiency
    # A GPU of the narrower shape has `wide / narrow` times the heads that it has in the wider one.
    kv_bytes = kv_tokens * model.kv_bytes_per_token * (1 / narrow - 1 / wide)
    weights = FEED_FORWARD * model.weight_bytes
    missing = weights * (1 / narrow - 1 / wide) if after == narrow else 0.0
    kept = weights / wide if method in (Method.NAIVE, Method.PAGED) else 0.0
    moves = -(-kv_tokens // TOKENS_PER_BLOCK) * model.layers
    each = HEAD_SECONDS if method is Method.NAIVE else PAGE_SECONDS
    seconds = moves * each + (kv_bytes + missing) / link + kept / HOST_RATE
    layer_bytes = (kv_bytes + missing + kept) / model.layers
    if method is Method.OVERLAPPED:
        return Cost(
            EXPOSED * seconds, -(-model.layers // LAYERS_A_STEP), kv_bytes + missing, LAYERS_A_STEP * layer_bytes
        )
    extra = layer_bytes if method is Method.PADDED else kv_bytes + kept
    return Cost(seconds, 1, kv_bytes + missing, extra)


def kept_whole_bytes(model: ModelProfile, width: int) -> float:
    """Return by how much a GPU's weights at TP `width` exceed its share, as all but the feed-forward stay whole."""
    return (1 - FEED_FORWARD) * model.weight_bytes * (1 - 1 / width)
