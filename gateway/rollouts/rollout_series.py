"""A rollout's measures over its time, for charts: of each version by spans of equal length, with their intervals."""

from collections.abc import Sequence
from math import ceil, exp, sqrt
from typing import Annotated, Final

from msgspec import Meta

from gateway.config.base import Record
from routing.rollouts.judging import bounds_of
from routing.rollouts.measures.events import FAILED, REQUESTS, TIMES
from routing.rollouts.measures.measures import Measures
from routing.rollouts.measures.slice import SLICE_SECONDS, Moments, Slice
from routing.rollouts.rollout import Rollout
from routing.rollouts.verdicts.judge import judge
from routing.rollouts.verdicts.verdict import Verdict

#: Spans that a chart has at most.
MOST_SPANS: Final = 120
#: Of the normal distribution: 95 of 100 values are within.
_Z: Final = 1.96


class Estimate(Record, frozen=True, kw_only=True):
    """A measure in one span with its 95 % confidence interval: of times geometric means in seconds, else a share."""

    value: float
    low: float
    high: float


class VersionSpan(Record, frozen=True, kw_only=True):
    """Measures of one version's requests in one span; a measure without requests is null."""

    requests: int = 0
    errors: Annotated[Estimate | None, Meta(description="Share of requests that failed.")] = None
    ttft: Annotated[Estimate | None, Meta(description="Seconds until the first token.")] = None
    tpot: Annotated[Estimate | None, Meta(description="Seconds for each token after it.")] = None
    seconds: Annotated[Estimate | None, Meta(description="Seconds until the last token.")] = None


class Span(Record, frozen=True, kw_only=True):
    """One span of time, which begins at `at`."""

    at: Annotated[float, Meta(description="Seconds since 1970.")]
    stable: VersionSpan
    candidate: VersionSpan


class RolloutSeries(Record, frozen=True, kw_only=True):
    """The measures of a model's last rollout over its time. They are kept for 7 days after the last request."""

    model: str
    rollout: str
    span_seconds: float
    verdict: Annotated[Verdict | None, Meta(description="Of all that was measured; null: nothing was.")] = None
    spans: Annotated[Sequence[Span], Meta(description="By time; those without requests are left out.")]


def rollout_series(rollout: Rollout, stable: Measures, candidate: Measures, now: float) -> RolloutSeries:
    """Put a rollout's slices together to at most so many spans as a chart has."""
    begins = sorted(stable.slices.keys() | candidate.slices.keys())
    first = begins[0] if begins else 0
    lasted = begins[-1] - first + SLICE_SECONDS if begins else 0
    width = SLICE_SECONDS * max(1, ceil(lasted / SLICE_SECONDS / MOST_SPANS))
    spans: dict[int, tuple[Slice, Slice]] = {}
    for side, measures in enumerate((stable, candidate)):
        for begin, piece in measures.slices.items():
            place = first + (begin - first) // width * width
            spans.setdefault(place, (Slice(), Slice()))[side].merge(piece)
    serves = next((event.at for event in rollout.history if event.share), rollout.since)
    elapsed = max((rollout.ended or now) - serves, 0.0)
    return RolloutSeries(
        model=rollout.model,
        rollout=rollout.id,
        span_seconds=width,
        verdict=judge(stable, candidate, bounds_of(rollout.settings), elapsed) if candidate.slices else None,
        spans=[Span(at=at, stable=_span(old), candidate=_span(new)) for at, (old, new) in sorted(spans.items())],
    )


def _span(piece: Slice) -> VersionSpan:
    requests = piece.counts.get(REQUESTS, 0)
    times = {name: _time(piece, name) for name in TIMES}
    return VersionSpan(requests=requests, errors=_share(piece.counts.get(FAILED, 0), requests), **times)


def _time(piece: Slice, name: str) -> Estimate | None:
    moments = Moments()
    for each in piece.moments.get(name, {}).values():
        moments.merge(each)
    if not moments.count:
        return None
    mean = moments.total / moments.count
    variance = max(moments.squares / moments.count - mean * mean, 0.0)
    # Of one value nothing is known but itself.
    gap = _Z * sqrt(variance / (moments.count - 1)) if moments.count > 1 else 0.0
    return Estimate(value=exp(mean), low=exp(mean - gap), high=exp(mean + gap))


def _share(events: int, among: int) -> Estimate | None:
    """Return the share with Wilson's interval (1927)."""
    if not among:
        return None
    share, square = events / among, _Z * _Z
    middle = (share + square / (2 * among)) / (1 + square / among)
    gap = _Z / (1 + square / among) * sqrt(share * (1 - share) / among + square / (4 * among * among))
    return Estimate(value=share, low=max(middle - gap, 0.0), high=min(middle + gap, 1.0))
