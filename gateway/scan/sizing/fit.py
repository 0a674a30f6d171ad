"""Pure: a model's memory, and the shapes in which it fits on GPUs with room for its KV cache."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.scan.sizing.families import Architecture
from gateway.scan.sizing.gpus import GpuKind

#: Part of a GPU's memory that an engine takes: vLLM's `gpu_memory_utilization` and TensorRT-LLM's
#: `free_gpu_memory_fraction` are 0.9 by default.
USABLE: Final = 0.9
#: Bytes of each GPU for the CUDA context, activations and graphs: an allowance, which depends on the engine.
OVERHEAD: Final = 2 << 30
#: Where the KV cache is not known, weights may take this part of the rest, so that there is room for one.
_WEIGHTS_SHARE: Final = 0.6
_DEGREES: Final = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class Need:
    """What a model takes. Bytes; None is unknown. `kv_per_token` is of one token over all layers and heads."""

    weights: float | None
    kv_per_token: float | None
    heads: int | None
    kv_heads: int | None

    def kv(self, tokens: int) -> float | None:
        """Bytes of the KV cache of so many tokens."""
        return None if self.kv_per_token is None else self.kv_per_token * tokens


@dataclass(frozen=True, slots=True)
class Placement:
    """A shape on one kind of GPU. `used` and `usable` are bytes of one GPU; `usd_per_hour` is of the replica."""

    gpu: GpuKind
    tp: int
    pp: int
    used: float
    usable: float

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tp * self.pp

    @property
    def usd_per_hour(self) -> float | None:
        """The price of one replica, if that of its GPUs is given."""
        return None if self.gpu.usd_per_hour is None else self.gpu.usd_per_hour * self.gpus

    @property
    def shown(self) -> str:
        """The shape in words."""
        pp = f" pp{self.pp}" if self.pp > 1 else ""
        return f"{self.gpu.name} tp{self.tp}{pp}"


def need_of(architecture: Architecture, bits: float, weight_bytes: float | None, kv_bytes: float) -> Need:
    """Estimate a model's need: `weight_bytes` where they are known, else parameters at so many `bits`.

    `kv_bytes` are those of one number in the KV cache.
    """
    weights = weight_bytes
    if weights is None and architecture.parameters is not None:
        kept = min(architecture.embedding, architecture.parameters) if bits < 16 else 0.0
        weights = (architecture.parameters - kept) * bits / 8 + kept * 2
    values = architecture.kv_values
    kv_heads = 1 if architecture.latent is not None else architecture.kv_heads
    return Need(weights, None if values is None else values * kv_bytes, architecture.heads, kv_heads)


def placements(need: Need, tokens: int, kinds: Sequence[GpuKind], machines: int = 1) -> Iterator[Placement]:
    """Yield the smallest shape of each kind of GPU in which the model fits, `tokens` in its KV cache at once.

    Over several machines, tensor parallelism stays within one, and they are stages of a pipeline.
    """
    if need.weights is None:
        return
    for kind in kinds:
        fitting = (
            found
            for pp in range(1, machines + 1)
            for tp in _DEGREES
            if tp <= kind.count and _divides(need.heads, tp) and (pp == 1 or tp == _widest(kind, need.heads))
            if (found := _placed(need, tokens, kind, tp, pp)) is not None
        )
        if (first := next(fitting, None)) is not None:
            yield first


def cheapest(found: Sequence[Placement]) -> Placement | None:
    """The shape of the lowest price where all prices are given, else that of the least memory in all."""
    if all(one.usd_per_hour is not None for one in found):
        return min(found, key=lambda one: (one.usd_per_hour or 0.0, one.gpus), default=None)
    return min(found, key=lambda one: (one.gpus * one.gpu.memory, one.gpus), default=None)


def most_tokens(need: Need, placed: Placement) -> int | None:
    """Tokens that the KV cache has room for in a shape; None if a token's bytes are not known."""
    if need.kv_per_token is None or need.weights is None:
        return None
    room = placed.usable - OVERHEAD - need.weights / placed.gpus
    return max(0, math.floor(room / _kv_share(need, need.kv_per_token, placed.tp, placed.pp)))


def _placed(need: Need, tokens: int, kind: GpuKind, tp: int, pp: int) -> Placement | None:
    assert need.weights is not None
    usable, weights, kv = kind.memory * USABLE, need.weights / (tp * pp), need.kv(tokens)
    if kv is None:
        used = weights + OVERHEAD
        return Placement(kind, tp, pp, used, usable) if weights <= _WEIGHTS_SHARE * (usable - OVERHEAD) else None
    used = weights + OVERHEAD + _kv_share(need, kv, tp, pp)
    return Placement(kind, tp, pp, used, usable) if used <= usable else None


def _kv_share(need: Need, kv: float, tp: int, pp: int) -> float:
    """The part of a KV cache that one GPU has: heads are split as far as there are any, then repeated."""
    return kv / (min(tp, need.kv_heads or tp) * pp)


def _divides(heads: int | None, tp: int) -> bool:
    return heads is None or heads % tp == 0


def _widest(kind: GpuKind, heads: int | None) -> int:
    return max(tp for tp in _DEGREES if tp <= kind.count and _divides(heads, tp))
