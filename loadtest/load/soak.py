"""A soak test of a worker's memory: many short requests, with resident memory sampled at regular counts."""

import random
from collections.abc import Callable
from statistics import median
from typing import Final

import msgspec

from loadtest.load.client import LoadSpec
from loadtest.load.processes import memory_mb
from loadtest.load.stack import chat_body, gateway_stack, random_prompt
from loadtest.load.track import Track
from loadtest.reports.statistics import slope

CONCURRENCY: Final = 64
SAMPLES: Final = 50
_PROMPTS: Final = 1000
#: Samples at each end that give the growth: a single one may hit a momentary peak of the allocator.
_END_SAMPLES: Final = 3


class SoakResult(msgspec.Struct, frozen=True, kw_only=True):
    """The worker's memory over requests since the warm-up, in MB (10^6 bytes)."""

    requests: int
    warmup: int
    errors: dict[str, int]
    seconds: float
    series: list[tuple[int, float]]
    bound_mb: float

    @property
    def growth_mb(self) -> float:
        """Median of the last samples less that of the first ones."""
        values = [memory for _, memory in self.series]
        return median(values[-_END_SAMPLES:]) - median(values[:_END_SAMPLES]) if values else 0.0

    @property
    def mb_per_100k(self) -> float:
        """Rise of the fitted line over 100,000 requests."""
        return slope(self.series) * 100_000

    @property
    def passed(self) -> bool:
        """Whether memory stayed within the bound and every request succeeded."""
        return bool(self.series) and self.growth_mb <= self.bound_mb and not self.errors


def soak(
    requests: int,
    *,
    warmup: int = 20_000,
    bound_mb: float = 5.0,
    show: Callable[[str, float, int], None] | None = None,
) -> SoakResult:
    """Send `warmup` and then `requests` short requests to an instant engine. Raises BenchError."""
    track = Track(1, show)
    track.at("starting a gateway")
    series: list[tuple[int, float]] = []
    interval = max(1, requests // SAMPLES)
    with gateway_stack(["--instant", "--output-tokens", "14"]) as stack:
        track.at("warm-up")

        def sample(ended: int) -> None:
            if ended and ended >= (series[-1][0] + interval if series else 1):
                series.append((ended, round(memory_mb(stack.worker_pid)[0], 2)))
            if ended:
                track.at("soak", ended / requests)

        spec = LoadSpec(bodies=_bodies(), concurrency=CONCURRENCY, requests=requests, warmup=warmup)
        result = stack.load(spec, sample)
    return SoakResult(
        requests=result.requests,
        warmup=warmup,
        errors=result.errors,
        seconds=round(result.seconds, 1),
        series=series,
        bound_mb=bound_mb,
    )


def _bodies() -> list[bytes]:
    """Make many different prompts, so that caches fill as in service."""
    rng = random.Random(1)
    return [chat_body(random_prompt(rng, rng.randrange(5, 60)), stream=False, max_tokens=14) for _ in range(_PROMPTS)]
