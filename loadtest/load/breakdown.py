"""ScaleLLM's Figure 6: a request's time in gateway and engine, over the number of concurrent requests.

Exp2 of the paper: answers that are not streamed, at most 512 tokens, temperature 0.5, top-p 0.7, 20 requests per
concurrent one. The client measures a request's whole time; the engine reports its inference and queueing times. The
rest is the paper's gateway latency, (t2 - t0) + (t5 - t3): all of the gateway, the client's and the gateway's network,
and the client itself.
"""

import random
from collections.abc import Callable, Sequence
from math import exp
from statistics import fmean
from typing import Final

import msgspec

from loadtest.load.client import LoadResult, LoadSpec
from loadtest.load.processes import BenchError
from loadtest.load.stack import MODEL, BenchPool, Stack, chat_body, gateway_stack, random_prompt
from loadtest.load.track import Track

CONCURRENCIES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
MAX_TOKENS: Final = 512
#: Two GPUs, as in the paper.
TENSOR_PARALLEL: Final = 2


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """Mean times of a request at one concurrency, in ms; `gateway_ms`, `queue_ms` and `engine_ms` make up `total_ms`.

    `load_busy` is the share of the load's core that engine and client used: near 1 their delays count as the gateway's.
    So do delays by other processes, which used `others_busy` of a core, the worse of the two cores.
    """

    concurrency: int
    requests: int
    errors: dict[str, int]
    gateway_ms: float
    queue_ms: float
    engine_ms: float
    total_ms: float
    output_tokens: float
    tokens_per_s: float
    load_busy: float
    others_busy: float

    @property
    def gateway_share(self) -> float:
        """Share of the whole time spent in the gateway."""
        return self.gateway_ms / self.total_ms


def breakdown(
    concurrencies: Sequence[int] = CONCURRENCIES,
    *,
    per_concurrent: int = 20,
    at_most: int = 2000,
    speed: float = 1.0,
    show: Callable[[str, float, int], None] | None = None,
) -> list[Bar]:
    """Measure each concurrency with `per_concurrent` requests per concurrent one, `at_most` in all.

    `speed` divides the engine's modelled time, for trials. Raises BenchError.
    """
    track = Track(len(concurrencies), show)
    bars = []
    track.at("starting a gateway")
    with gateway_stack(["--speed", str(speed)], pools=[BenchPool("bench", tp=TENSOR_PARALLEL)]) as stack:
        for concurrency in concurrencies:
            bars.append(_measure(stack, concurrency, max(1, min(per_concurrent * concurrency, at_most)), track))
            track.part_done()
    return bars


def engine_description(speed: float) -> str:
    """Describe the engine, for the figure's caption."""
    pace = "" if speed == 1.0 else f", {speed:g} times faster than life"
    return f"simulated engine: {MODEL} on two H100 (TP{TENSOR_PARALLEL}){pace}; at most {MAX_TOKENS} tokens an answer"


def bar_of(concurrency: int, result: LoadResult, stack: Stack) -> Bar:
    """Summarize a load's result as means. Raises BenchError where the engine's times are missing."""
    answers = len(result.e2e_ms)
    if not answers:
        raise BenchError(f"no request succeeded at concurrency {concurrency}: {result.errors}")
    if len(result.engine_ms) != answers or len(result.queue_ms) != answers:
        raise BenchError("the gateway's answers do not carry the engine's times (x-penstock-engine-ms, -queue-ms)")
    total, engine, queue = fmean(result.e2e_ms), fmean(result.engine_ms), fmean(result.queue_ms)
    busy = (stack.replica_cpu_seconds(result) + result.client_cpu_seconds) / result.seconds
    return Bar(
        concurrency=concurrency,
        requests=result.requests,
        errors=result.errors,
        gateway_ms=round(total - engine - queue, 3),
        queue_ms=round(queue, 3),
        engine_ms=round(engine, 3),
        total_ms=round(total, 3),
        output_tokens=round(result.output_tokens / answers, 1),
        tokens_per_s=round(result.output_tokens / result.seconds, 1),
        load_busy=round(busy, 3),
        others_busy=stack.others_busy(result),
    )


def _measure(stack: Stack, concurrency: int, requests: int, track: Track) -> Bar:
    label = f"{concurrency} concurrent"
    track.at(label)
    rng = random.Random(concurrency)
    # The warm-up and connections that are busy at the end send some more.
    bodies = [_conversation(rng) for _ in range(requests + 2 * concurrency)]
    spec = LoadSpec(bodies=bodies, concurrency=concurrency, requests=requests, warmup=min(concurrency, requests))
    return bar_of(concurrency, stack.load(spec, lambda ended: track.at(label, ended / requests)), stack)


def _conversation(rng: random.Random) -> bytes:
    """Make a request with a prompt about as long as OpenOrca's; only the system prompt is a shared prefix."""
    words = max(10, round(200 * exp(0.7 * rng.gauss(0, 1))))
    return chat_body(random_prompt(rng, words), stream=False, max_tokens=MAX_TOKENS, temperature=0.5, top_p=0.7)
