"""Settings of routing policies; each policy uses those that concern it."""

import random
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from routing.contracts.heatmap import Heatmap

#: Concurrent requests from which on ScaleLLM (section 6) routes to many narrow replicas instead of few wide ones.
CONCURRENCY_THRESHOLD: Final = 64
#: Default tokens from which on a request is long: others wait for two whole engine steps behind it.
LONG_CONTEXT_TOKENS: Final = 16_384


class Targets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Latency targets of an answer: TTFT and TPOT."""

    ttft_ms: Annotated[
        float, Meta(gt=0, le=600_000, description="Time to first token of an empty prompt, in milliseconds.")
    ] = 1000.0
    ttft_per_token_ms: Annotated[
        float, Meta(ge=0, le=1000, description="Further time to first token for each prompt token, in milliseconds.")
    ] = 0.25
    tpot_ms: Annotated[
        float, Meta(gt=0, le=60_000, description="Mean time between output tokens, in milliseconds.")
    ] = 50.0

    def first_token(self, prompt_tokens: int) -> float:
        """Return the TTFT bound for a prompt, in seconds."""
        return (self.ttft_ms + self.ttft_per_token_ms * prompt_tokens) * 1e-3

    @property
    def tpot(self) -> float:
        """Return the bound on an answer's mean TPOT, in seconds."""
        return self.tpot_ms * 1e-3


class Tier(msgspec.Struct, frozen=True):
    """Pools that take a model's requests while it has fewer than `below` sequences in flight."""

    pools: frozenset[str]
    below: float = float("inf")


class PolicySettings(msgspec.Struct, frozen=True):
    """Settings of one model's policy.

    `tiers` are ordered by their bounds, the last one has none; without any they follow from the replicas' widths and
    the `threshold`. With `learned` the bounds are ignored and the best tier for each concurrency is learned. A `seed`
    makes random draws repeatable.
    """

    targets: Targets = Targets()
    tiers: tuple[Tier, ...] = ()
    threshold: float = CONCURRENCY_THRESHOLD
    learned: bool = False
    heatmap: Heatmap | None = None
    long_context_tokens: int = LONG_CONTEXT_TOKENS
    seed: int | None = None

    @property
    def rng(self) -> random.Random:
        """Return a random number generator for one policy."""
        return random.Random(self.seed)
