"""Test whether a candidate's 99th percentile is over its bound: a multiple of the baseline's, on like requests.

It is if more than 1 % of its requests take longer than the bound. They come in bursts, as load does, so that requests
are not counted one by one, but the share of late ones by time, at the same load on each replica.
"""

from collections.abc import Mapping, Sequence
from math import ceil, exp, log
from typing import Final

from routing.rollouts.measures import histogram
from routing.rollouts.measures.measures import Measures
from routing.rollouts.verdicts.blocks import Block, Moment
from routing.rollouts.verdicts.hard_bound import log_evidence
from routing.rollouts.verdicts.latencies import fit_blocks
from routing.rollouts.verdicts.regression import Fit
from routing.rollouts.verdicts.still_needed import times_more
from routing.rollouts.verdicts.verdict import LEANING, Comparison, Standing

_P99: Final = 0.99
#: Values of the baseline that its 99th percentile in one stratum needs.
_LEAST: Final = 200
#: Requests of the candidate that make a share.
_LEAST_IN_BLOCK: Final = 10
#: A share of late requests that no burst explains: here each counts, and a candidate that hardly answers goes at once.
_GROSS: Final = 0.2
#: How far from the bound's 1 % a share is expected to be, in standard deviations of one request.
_SPREAD: Final = 0.3


def compare_p99(
    baseline: Measures, candidate: Measures, moments: Sequence[Moment], measure: str, error: float, bound: float
) -> Comparison | None:
    """Test a measure's percentiles; None: the baseline has too few values, or the candidate none."""
    theirs, ours = baseline.histograms(measure), candidate.histograms(measure)
    kept = [stratum for stratum in ours if sum(theirs.get(stratum, {}).values()) >= _LEAST]
    if not kept:
        return None
    farther = ceil(log(bound) / histogram.WIDTH)
    latest = {stratum: histogram.quantile_bucket(theirs[stratum], _P99) + farther for stratum in kept}
    late = sum(histogram.above(ours[stratum], latest[stratum]) for stratum in kept)
    among = sum(sum(ours[stratum].values()) for stratum in kept)
    standing: Standing = "as_good"
    more = None
    evidence = _evidence(late, among, None)
    if evidence < -log(error) and late > (1.0 - _P99) * among:
        found = _late_by_time(moments, measure, latest)
        line = fit_blocks(found, [1.0] * len(found), (), load_exponent=0.0)
        evidence = _evidence(late, among, line)
        if LEANING <= evidence < -log(error):
            more = times_more(lambda times: _evidence(late, among, line, times) >= -log(error))
    if evidence >= LEANING:
        standing = "worse" if evidence >= -log(error) else "leaning"
    one, other = _p99([theirs[stratum] for stratum in kept]), _p99([ours[stratum] for stratum in kept])
    return Comparison(
        measure=f"{measure}_p99",
        standing=standing,
        baseline=one,
        candidate=other,
        ratio=other / one,
        baseline_samples=sum(sum(theirs[stratum].values()) for stratum in kept),
        candidate_samples=among,
        bound=bound,
        more=more,
    )


def _evidence(late: int, among: int, line: Fit | None, times: float = 1.0) -> float:
    """Return the evidence that too many are late, if so many times as many requests were like these."""
    if line is None or line.estimate <= 1.0 - _P99:
        return log_evidence(times * late, times * among, _GROSS)
    return line.times(times).log_evidence(1.0 - _P99, _SPREAD)


def _late_by_time(moments: Sequence[Moment], measure: str, latest: Mapping[int, int]) -> list[Block]:
    """Return the candidate's shares of late requests, one block after the other."""
    found: list[Block] = []
    late = among = 0
    load = times = 0.0
    for moment in moments:
        strata = moment.candidate.histograms.get(measure)
        if not strata:
            continue
        for stratum, bucket in latest.items():
            buckets = strata.get(stratum)
            if buckets:
                late += histogram.above(buckets, bucket)
                among += sum(buckets.values())
        load += moment.load
        times += 1
        if among >= _LEAST_IN_BLOCK:
            found.append(Block(0.0, late / among, float(among), load / times))
            late = among = 0
            load = times = 0.0
    return found


def _p99(histograms: Sequence[Mapping[int, int]]) -> float:
    merged: dict[int, int] = {}
    for each in histograms:
        histogram.merge(merged, each)
    return exp(histogram.upper_end(histogram.quantile_bucket(merged, _P99)))
