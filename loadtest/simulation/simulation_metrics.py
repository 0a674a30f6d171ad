"""Metrics of a simulation: latencies, target attainment, cache hits, and balance."""

from collections.abc import Sequence

import msgspec

from loadtest.reports.statistics import percentile
from loadtest.simulation.flight import Outcome
from loadtest.simulation.simulate import Result
from routing.contracts.policy_settings import Targets


class Spread(msgspec.Struct, frozen=True):
    """A distribution by its mean and percentiles."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float


class Summary(msgspec.Struct, frozen=True):
    """The figures of one simulation. Times are in seconds, rates per second of virtual time.

    `attainment` is the share of all requests that met the targets; refused ones met none. `hit_rate` is the share of
    prompt tokens that were found in a KV cache. `busy` is the mean over GPUs of the share of time in which their
    replica computed, `balance` that of the busiest replica, relative to the mean.
    """

    requests: int
    refused: int
    rate: float
    attainment: float
    ttft: Spread | None
    tpot: Spread | None
    hit_rate: float
    busy: float
    balance: float
    seconds: float
    wall: float


def meets(outcome: Outcome, targets: Targets) -> bool:
    """Whether a request met the TTFT and TPOT targets."""
    if outcome.ttft is None or outcome.ttft > targets.first_token(outcome.prompt_tokens):
        return False
    return outcome.tpot is None or outcome.tpot <= targets.tpot


def attainment(result: Result, targets: Targets) -> float:
    """Return the share of all requests that met the targets."""
    return sum(meets(outcome, targets) for outcome in result.outcomes) / len(result.outcomes)


def summary(result: Result, targets: Targets) -> Summary:
    """Compute all figures of a complete run."""
    outcomes = result.outcomes
    ttfts = [outcome.ttft for outcome in outcomes if outcome.ttft is not None]
    tpots = [outcome.tpot for outcome in outcomes if outcome.tpot is not None]
    prompts = sum(outcome.prompt_tokens for outcome in outcomes if outcome.ttft is not None)
    first, last = min(o.arrival for o in outcomes), max(o.arrival for o in outcomes)
    gpus = sum(replica.gpus for replica in result.replicas)
    mean_busy = sum(replica.busy * replica.gpus for replica in result.replicas) / gpus
    return Summary(
        requests=len(outcomes),
        refused=len(outcomes) - len(ttfts),
        rate=(len(outcomes) - 1) / (last - first) if last > first else 0.0,
        attainment=attainment(result, targets),
        ttft=_spread(ttfts),
        tpot=_spread(tpots),
        hit_rate=sum(outcome.cached_tokens for outcome in outcomes) / prompts if prompts else 0.0,
        busy=mean_busy / result.seconds if result.seconds else 0.0,
        balance=max(replica.busy for replica in result.replicas) / mean_busy if mean_busy else 1.0,
        seconds=result.seconds,
        wall=result.wall,
    )


def _spread(values: Sequence[float]) -> Spread | None:
    if not values:
        return None
    ordered = sorted(values)
    return Spread(sum(ordered) / len(ordered), *(percentile(ordered, share) for share in (0.5, 0.9, 0.95, 0.99)))
