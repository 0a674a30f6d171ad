"""Measures the effect of one tenant's flood of long prompts on another tenant's TTFT, on the default fleet."""

import random
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

import msgspec

from loadtest.load.client import LoadResult, LoadSpec
from loadtest.load.client_beside import first_tokens, tracked_load
from loadtest.load.processes import BenchError
from loadtest.load.stack import BenchPool, chat_body, gateway_stack, random_prompt
from loadtest.load.track import Track
from loadtest.reports.statistics import Percentiles, median_percentiles

#: The pools of penstock.yaml.
POOLS: Final = (
    BenchPool("wide", tp=8, ep=2),
    BenchPool("middle", tp=4, replicas=2),
    BenchPool("narrow", tp=2, replicas=4),
)
PROMPT_TOKENS: Final = (30_000, 100_000)
#: Context length over the longest prompt, whose length in tokens is only approximate.
_SPARE: Final = 1.25
_CHAT_WORDS: Final = 150
_ANSWER_TOKENS: Final = 16
_FLOOD_ANSWER_TOKENS: Final = 16
_TOKENS_PER_WORD: Final = 1.25
_FLOOD_BODIES: Final = 16
#: Head of each flood prompt, replaced by its number: a cached prompt would be no work for an engine.
_STAMP: Final = "(request number)"


class Fairness(msgspec.Struct, frozen=True, kw_only=True):
    """A light tenant alone and beside a flood; TTFT in ms. `ratio` is that of the p99, the median over runs.

    `flood_requests` with `flood_input_tokens` were answered over all runs; refused ones used no tokens.
    """

    prompt_tokens: int
    context: int
    flood_clients: int
    runs: int
    errors: int
    alone_ms: Percentiles
    beside_ms: Percentiles
    ratio: float
    flood_requests: int
    flood_input_tokens: int


def fairness(
    prompt_tokens: Sequence[int] = PROMPT_TOKENS,
    *,
    flood_clients: int = 16,
    clients: int = 4,
    requests: int = 400,
    repeat: int = 1,
    context: int | None = None,
    show: Callable[[str, float, int], None] | None = None,
) -> list[Fairness]:
    """Measure for each length of the flood's prompts, alone and beside the flood in turn, `repeat` times.

    `context` None: a quarter more than the prompts, at least 32,768. Raises BenchError.
    """
    track = Track(2 * repeat * len(prompt_tokens), show)
    return [
        _measure(length, context or max(32_768, int(length * _SPARE)), flood_clients, clients, requests, repeat, track)
        for length in prompt_tokens
    ]


def _measure(
    length: int, context: int, flood_clients: int, clients: int, requests: int, repeat: int, track: Track
) -> Fairness:
    rng = random.Random(1)
    chats = [
        chat_body(random_prompt(rng, _CHAT_WORDS), stream=True, max_tokens=_ANSWER_TOKENS) for _ in range(requests)
    ]
    light = LoadSpec(bodies=chats, concurrency=clients, requests=requests, warmup=4 * clients)
    words = int(length / _TOKENS_PER_WORD)
    flood = LoadSpec(
        bodies=[
            chat_body(f"{_STAMP} {random_prompt(rng, words)}", stream=False, max_tokens=_FLOOD_ANSWER_TOKENS)
            for _ in range(_FLOOD_BODIES)
        ],
        stamp=_STAMP,
        concurrency=flood_clients,
        requests=1_000_000,
    )
    alone: list[LoadResult] = []
    beside: list[LoadResult] = []
    track.at("starting a gateway")
    with gateway_stack([], pools=POOLS, context=context) as stack:
        for _ in range(repeat):
            alone.append(tracked_load(stack, light, f"alone, before {length:,}", track))
            with stack.flood(flood):
                beside.append(tracked_load(stack, light, f"beside {length:,}", track))
        used = stack.limited_use()
    first, second = ([first_tokens(result) for result in results] for results in (alone, beside))
    whole = (median_percentiles(first), median_percentiles(second))
    if whole[0] is None or whole[1] is None:
        raise BenchError("no request of the light tenant succeeded")
    return Fairness(
        prompt_tokens=length,
        context=context,
        flood_clients=flood_clients,
        runs=repeat,
        errors=sum(result.error_count for result in (*alone, *beside)),
        alone_ms=whole[0],
        beside_ms=whole[1],
        ratio=round(median(b.p99 / a.p99 for a, b in zip(first, second, strict=True)), 3),
        flood_requests=used.get("requests", 0),
        flood_input_tokens=used.get("input_tokens", 0),
    )
