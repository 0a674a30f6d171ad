"""Step times of an engine: a roofline over weights, KV, arithmetic and communication, fitted to published runs.

docs/engine-model.md explains the terms and compares the results with the published figures.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from math import comb, sqrt
from statistics import NormalDist
from typing import Protocol

from protos.types import Shape
from replicas.kv_cache import TOKENS_PER_BLOCK
from replicas.profiles import H100, Gpu, ModelProfile


@dataclass(slots=True)
class Batch:
    """The work of one step, in tokens."""

    decode: int = 0  # sequences that gain one token each
    decode_context: int = 0  # KV tokens these read
    prefill: int = 0  # prompt tokens computed
    prefill_pairs: int = 0  # (query, key) pairs of these prompt tokens' attention
    outputs: int = 0  # sequences that sample a token: decoding ones and completed prompts


@dataclass(frozen=True, slots=True)
class Series:
    """Seconds of consecutive decode-only steps: `first`, then each longer by `growth` (at most `first`)."""

    first: float
    growth: float

    def seconds(self, steps: int) -> float:
        """Return the sum over `steps` steps."""
        return steps * self.first + steps * (steps - 1) / 2 * self.growth

    def steps_within(self, seconds: float, most: int) -> int:
        """Return how many steps end within `seconds`, at most `most`."""
        if self.seconds(most) <= seconds:
            return most
        # The positive root of seconds(steps) = seconds; rounding may put it on the wrong side of an integer.
        linear = self.first - self.growth / 2
        root = 2 * seconds / (linear + sqrt(linear * linear + 2 * self.growth * seconds))
        steps = min(most, int(root) + 1)
        while self.seconds(steps) > seconds:
            steps -= 1
        return steps


class StepTimer(Protocol):
    """Computes durations of steps and transfers."""

    def step_seconds(self, batch: Batch) -> float:
        """Return the seconds of a step."""
        ...

    def decode_series(self, sequences: int, context: int) -> Series:
        """Return the series of steps that only decode `sequences`, with `context` tokens before the first step."""
        ...

    def transfer_seconds(self, tokens: int) -> float:
        """Return the seconds to receive the KV of `tokens` from a prefill replica."""
        ...


@dataclass(frozen=True, slots=True)
class FixedTimer:
    """Equal steps and no transfer time, for measuring what surrounds the engine."""

    seconds: float

    def step_seconds(self, batch: Batch) -> float:
        """Return the fixed time."""
        return self.seconds

    def decode_series(self, sequences: int, context: int) -> Series:
        """Return a series of the fixed time."""
        return Series(self.seconds, 0.0)

    def transfer_seconds(self, tokens: int) -> float:
        """Return 0."""
        return 0.0


def _fitted(value: float, unit: str, means: str) -> float:
    """Make a coefficient with its description, from which docs/engine-model.md is generated."""
    return field(default=value, metadata={"unit": unit, "means": means})


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Reached shares of the hardware's peaks, and fixed costs."""

    memory_efficiency: float = _fitted(0.88, "of peak HBM rate", "reached when reading weights")
    kv_efficiency: float = _fitted(0.687, "of peak HBM rate", "reached when reading KV blocks")
    compute_efficiency: float = _fitted(0.541, "of peak FP8 rate", "reached by matrix products")
    attention_efficiency: float = _fitted(0.40, "of peak FP8 rate", "reached by prompt attention")
    link_efficiency: float = _fitted(0.668, "of peak link rate", "reached by all-reduces")
    narrow_width: float = _fitted(150.0, "columns", "at which a shard reaches half of these efficiencies")
    step_seconds: float = _fitted(1.73e-3, "s per step", "launch and scheduling")
    sequence_seconds: float = _fitted(3.66e-6, "s per sampled token", "sampling and bookkeeping")
    collective_seconds: float = _fitted(27.8e-6, "s per all-reduce", "latency, twice a layer")
    split_seconds: float = _fitted(4.0e-6, "s per layer and further GPU", "that a feed-forward matrix is split over")
    group_seconds: float = _fitted(7.5e-6, "s per layer and further expert group", "routing to it and joining results")
    expert_skew: float = _fitted(0.05, "of mean load, per further group", "extra load of the busiest expert group")
    roofline_power: float = _fitted(2.73, "exponent", "of the norm that joins reading and arithmetic")
    transfer_rate: float = _fitted(64e9, "bytes/s", "of KV between prefill and decode replicas")
    free_memory_fraction: float = _fitted(0.9, "of memory", "left after weights and workspace, given to KV")
    workspace_bytes: float = _fitted(4e9, "bytes per GPU", "for activations, context and collectives")


FITTED = Coefficients()


class RooflineTimer:
    """Step times of one model on one replica shape."""

    def __init__(
        self,
        model: ModelProfile,
        shape: Shape,
        *,
        gpu: Gpu = H100,
        coefficients: Coefficients = FITTED,
        speed: float = 1.0,
    ) -> None:
        if model.experts % shape.ep or shape.tp % shape.ep:
            raise ValueError(f"ep={shape.ep} must divide tp={shape.tp} and the model's {model.experts} experts")
        c = coefficients
        self._model, self._shape, self._c, self._speed = model, shape, c, speed
        expert_tp = shape.tp // shape.ep
        narrow = self._width_efficiency(model.feed_forward / expert_tp)
        shared_narrow = self._width_efficiency(model.heads * model.head_size / shape.tp)
        # Per value: wider ones take longer to read, and to multiply.
        memory = gpu.memory_rate * c.memory_efficiency / model.value_bytes
        compute = gpu.fp8_rate * c.compute_efficiency / model.value_bytes
        self._shared_read = model.shared_parameters / shape.tp / (memory * shared_narrow)
        self._expert_read = model.expert_parameters / expert_tp / (memory * narrow)
        self._shared_token = 2 * model.shared_parameters / shape.tp / (compute * shared_narrow)
        self._expert_token = 2 * model.expert_parameters * model.experts_per_token / shape.tp / (compute * narrow)
        kv_shards = min(shape.tp, model.kv_heads)
        self._kv_token = model.kv_bytes_per_token / kv_shards / (gpu.memory_rate * c.kv_efficiency)
        self._pair = (
            4
            * model.layers
            * model.heads
            * model.head_size
            * model.value_bytes
            / shape.tp
            / (gpu.fp8_rate * c.attention_efficiency)
        )
        collectives = 2 * model.layers if shape.tp > 1 else 0
        ring_bytes = 2 * (shape.tp - 1) / shape.tp * model.hidden * 2
        self._link_token = collectives * ring_bytes / (gpu.link_rate * c.link_efficiency)
        # With pp stages and as many micro-batches in flight every stage reads its weights once per micro-batch, so
        # reading takes as long as on one stage, while the work of tokens is spread over all of them.
        hops = shape.pp - 1
        self._shared_token /= shape.pp
        self._expert_token /= shape.pp
        self._kv_token /= shape.pp
        self._pair /= shape.pp
        self._link_token /= shape.pp
        self._link_token += hops * model.hidden * 2 / (gpu.link_rate * c.link_efficiency)
        self._fixed = c.step_seconds + (collectives + hops) * c.collective_seconds
        self._fixed += model.layers * ((expert_tp - 1) * c.split_seconds + (shape.ep - 1) * c.group_seconds)
        self._power = c.roofline_power
        self._contextless: dict[int, float] = {}  # decoding sequences -> s of a decode-only step without its KV reads

    def step_seconds(self, batch: Batch) -> float:
        """Return fixed costs plus the roofline of matrix products, attention and communication, in sequence."""
        tokens = batch.decode + batch.prefill
        busiest = _busiest_experts(self._model.experts, self._model.experts_per_token, self._shape.ep, min(tokens, 256))
        read = self._shared_read + busiest * self._expert_read
        compute = tokens * (self._shared_token + self._imbalance(tokens) * self._expert_token)
        power = self._power
        products = float((read**power + compute**power) ** (1 / power))
        attention = batch.decode_context * self._kv_token + batch.prefill_pairs * self._pair
        outside = self._fixed + tokens * self._link_token + batch.outputs * self._c.sequence_seconds
        return (products + attention + outside) / self._speed

    def decode_series(self, sequences: int, context: int) -> Series:
        """Return the series; only the KV reads grow."""
        base = self._contextless.get(sequences)
        if base is None:
            base = self.step_seconds(Batch(decode=sequences, outputs=sequences))
            self._contextless[sequences] = base
        return Series(
            base + context * self._kv_token / self._speed,
            sequences * self._kv_token / self._speed,
        )

    def transfer_seconds(self, tokens: int) -> float:
        """Return the KV's bytes over the rate between replicas."""
        return tokens * self._model.kv_bytes_per_token / self._c.transfer_rate / self._speed

    def _width_efficiency(self, columns: float) -> float:
        return columns / (columns + self._c.narrow_width)

    def _imbalance(self, tokens: int) -> float:
        """Return the busiest expert group's load over the mean: popularity's skew, and chance in small batches."""
        groups = self._shape.ep
        if groups == 1 or not tokens:
            return 1.0
        picks = tokens * self._model.experts_per_token / groups
        chance = sqrt((1 - 1 / groups) / picks) * _largest_of(groups)
        return min(float(groups), 1.0 + self._c.expert_skew * (groups - 1) + chance)


@lru_cache(maxsize=64)
def _largest_of(count: int) -> float:
    """Return the expected largest of `count` standard normal draws (Blom's approximation)."""
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25))


@lru_cache(maxsize=4096)
def _busiest_experts(experts: int, per_token: int, groups: int, tokens: int) -> float:
    """Return the expected number of distinct experts that the busiest of `groups` must read for `tokens` tokens.

    Tokens choose independently and evenly. One token is exact; for more, the mean over groups plus the spread of the
    busiest, bounded by what a group holds.
    """
    if experts == 1:
        return 1.0
    per_group = experts // groups
    mean = per_group * (1 - (1 - per_token / experts) ** tokens)
    if groups == 1:
        return mean
    if tokens == 1 and per_token == 2:
        same_group = groups * comb(per_group, 2) / comb(experts, 2)
        return 1 + same_group
    missed = (1 - per_token / experts) ** tokens
    spread = sqrt(per_group * missed * (1 - missed)) * _largest_of(groups)
    return min(float(per_group), mean + spread)


def kv_blocks(
    model: ModelProfile,
    shape: Shape,
    tokens_per_block: int = TOKENS_PER_BLOCK,
    *,
    gpu: Gpu = H100,
    coefficients: Coefficients = FITTED,
) -> int:
    """Return the blocks that fit a replica's memory beside the weights."""
    c = coefficients
    free = gpu.memory_bytes - model.weight_bytes / shape.gpus - c.workspace_bytes
    kv_share = model.kv_bytes_per_token / (min(shape.tp, model.kv_heads) * shape.pp)
    blocks = int(free * c.free_memory_fraction / (kv_share * tokens_per_block))
    if blocks < 1:
        raise ValueError(f"{model.name} does not fit {shape.gpus} x {gpu.name}")
    return blocks
