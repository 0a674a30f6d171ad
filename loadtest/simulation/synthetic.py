"""Synthetic requests: log-normal lengths and shared prefixes."""

import random
from math import exp, log, sqrt
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from loadtest.simulation.block_names import expanded, own_blocks
from loadtest.simulation.simulated_requests import TimedRequest
from replicas.kv_cache import TOKENS_PER_BLOCK

#: Names of prompts' blocks are made from numbers from here on; those of answers from the requests' numbers.
_PROMPTS: Final = 1 << 40


class Synthetic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of synthetic requests: mean lengths in tokens and their variation.

    `variation` is the standard deviation relative to the mean. With `prefixes` each prompt begins with one of that many
    system prompts of `prefix_tokens` each, on top of its own length; the k-th is drawn in proportion to 1/k.
    """

    prompt_tokens: Annotated[int, Meta(ge=1, le=10_000_000)] = 1000
    output_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] = 200
    variation: Annotated[float, Meta(ge=0, le=10)] = 1.0
    prefixes: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    prefix_tokens: Annotated[int, Meta(ge=0, le=10_000_000)] = 1024


def synthetic(kind: Synthetic, count: int, seed: int) -> list[TimedRequest]:
    """Make `count` requests, all at time 0 until they are given gaps."""
    rng = random.Random(seed)
    popularity = [1 / place for place in range(1, kind.prefixes + 1)]
    shared_tokens = kind.prefix_tokens // TOKENS_PER_BLOCK * TOKENS_PER_BLOCK
    requests = []
    for number in range(count):
        prompt, output = (_length(mean, kind.variation, rng) for mean in (kind.prompt_tokens, kind.output_tokens))
        chain: list[int] = []
        if popularity:
            prefix = rng.choices(range(kind.prefixes), popularity)[0]
            chain = expanded([prefix], shared_tokens, shared_tokens) if shared_tokens else []
            prompt += shared_tokens
            chain += own_blocks(_PROMPTS + number, 0, prompt // TOKENS_PER_BLOCK - len(chain))
        requests.append(TimedRequest(0.0, prompt, output, chain))
    return requests


def _length(mean: float, variation: float, rng: random.Random) -> int:
    """Draw a log-normal length of this mean, at least one token."""
    square = log(1 + variation * variation)
    return max(1, round(exp(log(mean) - square / 2 + sqrt(square) * rng.gauss(0, 1))))
