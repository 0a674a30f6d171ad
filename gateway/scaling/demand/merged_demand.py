"""All workers' reports on one model as one demand. Pure."""

from collections.abc import Sequence

import msgspec

from gateway.scaling.demand.demand_reports import BUCKETS, ModelReport, PoolReport, quantile
from replicas.controller.snapshot import Demand
from routing.estimates.step_model import LearnedSteps

#: The share of requests whose latency counts.
_P95 = 0.95
#: Short requests that must have ended, as they fade, for their means to be told: of fewer, rounding is what is left.
_LEAST_SHORT = 0.01


class PoolKnowledge(msgspec.Struct, frozen=True, kw_only=True):
    """A pool's engines, out of all workers' reports; sizes are of one replica, 0: not known."""

    steps: LearnedSteps | None = None
    occupancy: float | None = None
    kv_tokens: int = 0
    max_sequences: int = 0
    max_step_tokens: int = 0


def merged_demand(reports: Sequence[ModelReport]) -> Demand | None:
    """Return the demand of a model; None where no worker reports it."""
    if not reports:
        return None
    ended = sum(report.ended for report in reports)

    def mean(name: str) -> float:
        return float(sum(getattr(report, name) for report in reports)) / ended if ended > 0 else 0.0

    return Demand(
        window=max(report.window for report in reports),
        requests_per_second=sum(report.arrivals / report.window for report in reports if report.window > 0),
        prompt_tokens=mean("prompt_tokens"),
        cached_tokens=mean("cached_tokens"),
        output_tokens=mean("output_tokens"),
        waiting=sum(report.waiting for report in reports),
        oldest_wait=max(report.oldest_wait for report in reports),
        in_flight=sum(report.in_flight for report in reports),
        ttft_ratio=quantile(_summed([report.ttft for report in reports]), _P95),
        tpot_ratio=quantile(_summed([report.tpot for report in reports]), _P95),
    )


def short_demand(reports: Sequence[ModelReport]) -> Demand | None:
    """Return the demand with the means of requests that are no long ones; of all where none of these has ended."""
    short = [report.short for report in reports]
    return merged_demand(short if sum(report.ended for report in short) > _LEAST_SHORT else reports)


def pool_knowledge(reports: Sequence[ModelReport], pool: str) -> PoolKnowledge:
    """Return what the workers know of a pool. Of step times those from the most steps count."""
    found = [report.pools[pool] for report in reports if pool in report.pools]
    learned = [one.steps for one in found if one.steps is not None]
    busy = [one.occupancy for one in found if one.occupancy is not None]
    return PoolKnowledge(
        steps=max(learned, key=lambda steps: steps.steps, default=None),
        # Each worker hears all steps of the engines that it is connected with.
        occupancy=max(busy, default=None),
        kv_tokens=_largest(found, "kv_tokens"),
        max_sequences=_largest(found, "max_sequences"),
        max_step_tokens=_largest(found, "max_step_tokens"),
    )


def _largest(found: Sequence[PoolReport], name: str) -> int:
    return max((getattr(one, name) for one in found), default=0)


def _summed(counts: Sequence[Sequence[int]]) -> list[int]:
    total = [0] * BUCKETS
    for one in counts:
        for bucket, count in enumerate(one[:BUCKETS]):
            total[bucket] += count
    return total
