"""What the configuration may tell a policy; each takes of it what concerns it."""

import random
from typing import Final

import msgspec

from routing.contracts.heatmap import Heatmap

#: Concurrent requests from which on ScaleLLM (section 6) routes to many narrow replicas instead of few wide ones.
CONCURRENCY_THRESHOLD: Final = 64
#: Tokens from which on a request is long, unless it is configured: others wait for two whole engine steps behind it.
LONG_CONTEXT_TOKENS: Final = 16_384


class Targets(msgspec.Struct, frozen=True):
    """What a good answer is: its TTFT within `ttft` plus `ttft_per_token` for each prompt token, its mean TPOT `tpot`.

    All in seconds. The defaults suit interactive use of models of medium size.
    """

    ttft: float = 1.0
    ttft_per_token: float = 0.25e-3
    tpot: float = 50e-3

    def first_token(self, prompt_tokens: int) -> float:
        """The bound on the TTFT of a prompt, in seconds."""
        return self.ttft + self.ttft_per_token * prompt_tokens


class Tier(msgspec.Struct, frozen=True):
    """Pools that take a model's requests while it has fewer than `below` sequences in flight."""

    pools: frozenset[str]
    below: float = float("inf")


class PolicySettings(msgspec.Struct, frozen=True):
    """Settings of one model's policy.

    `tiers` are ordered by their bounds, the last one has none; without any they follow from the replicas' widths and
    the `threshold`. With `learned` no bound counts: which tier is best at which concurrency is learned. A `seed`
    makes what a policy draws repeatable.
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
        """A source of chance for one policy."""
        return random.Random(self.seed)
