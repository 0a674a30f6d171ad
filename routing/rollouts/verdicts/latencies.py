"""Compare sizes of like requests: latencies, lengths, costs."""

from collections.abc import Sequence
from math import exp, log, log1p
from typing import Final

import msgspec

from routing.rollouts.verdicts.blocks import Block, Moment, blocks
from routing.rollouts.verdicts.regression import Fit, fit
from routing.rollouts.verdicts.still_needed import times_more
from routing.rollouts.verdicts.verdict import LEANING, Comparison, Standing

#: How far from the tolerated ratio a true one is expected to be, in standard deviations of a value; a trend by minute.
_SPREAD: Final = 0.3
_TREND_SPREAD: Final = 0.08
#: Growth by minute that is nobody's concern.
_TOLERATED_TREND: Final = 0.03
#: Growth by minute with which a candidate is not held to be as good, though it may be chance.
_CONCERN_TREND: Final = 0.05
#: Standard errors with which a difference of concern may not be chance, so that more is waited for.
_LIKELY: Final = 2.0
#: What is expected of neighbouring blocks: load lasts longer than one of them.
_PERSISTENCE: Final = 0.5
#: How latency follows load, as an exponent, is learned from the blocks; before it is about this, plus or minus that.
_LOAD_EXPONENT: Final = 0.5
_LOAD_SPREAD: Final = 0.7
#: Differences of load, as logarithms, that need no correction.
_SAME_LOAD: Final = 0.02
#: The logarithm of a ratio that no version has: what an estimate or its interval reaches beyond it says nothing.
_MOST: Final = 20.0
#: The fewest blocks: fewer do not tell by how much they vary.
_LEAST_BLOCKS: Final = 5


def compare_sizes(
    moments: Sequence[Moment], measure: str, stratum: int | None, error: float, tolerated: float
) -> Comparison | None:
    """Compare a measure's geometric means, at the same load on each replica; None: one version has no values.

    The candidate's may be higher by the part `tolerated`.
    """
    means = _means(moments, measure, stratum)
    if means is None:
        return None
    (baseline, baseline_samples), (candidate, candidate_samples) = means
    seen = Comparison(
        measure=measure,
        stratum=stratum,
        standing="too_few",
        baseline=baseline,
        candidate=candidate,
        ratio=candidate / baseline,
        baseline_samples=baseline_samples,
        candidate_samples=candidate_samples,
    )
    found = blocks(moments, measure, stratum)
    line = fit_blocks(found, [1.0] * len(found), ())
    if line is None:
        if 0 < len(found) < _LEAST_BLOCKS:
            return msgspec.structs.replace(seen, more=_LEAST_BLOCKS / len(found) - 1.0)
        return seen
    concern = log1p(tolerated if stratum is None else 3.0 * tolerated)
    return _judged(seen, line, error, log1p(tolerated), _SPREAD, concern)


def compare_trends(moments: Sequence[Moment], measure: str, error: float) -> Comparison | None:
    """Compare by how much the candidate's latencies grow in a minute, beside the baseline's; None: too early."""
    found = blocks(moments, measure)
    line = fit_blocks(found, [each.minute for each in found], ([1.0] * len(found),))
    if line is None:
        return None
    seen = Comparison(measure=f"{measure}_trend", standing="too_few", baseline=1.0, candidate=exp(line.estimate))
    return _judged(seen, line, error, _TOLERATED_TREND, _TREND_SPREAD, _CONCERN_TREND, power=3)


def fit_blocks(
    found: Sequence[Block],
    tested: Sequence[float],
    others: Sequence[Sequence[float]],
    load_exponent: float = _LOAD_EXPONENT,
) -> Fit | None:
    """Fit the blocks' differences at the same load; None: there are too few, or they say nothing.

    How they follow the load is learned from them, and begins with `load_exponent`.
    """
    if len(found) < _LEAST_BLOCKS:
        return None
    values, weights = [each.difference for each in found], [each.weight for each in found]
    loads = [each.load for each in found]
    if max(map(abs, loads)) > _SAME_LOAD:
        plain = fit(values, weights, tested, others)
        if plain is None:
            return None
        # One more block, of which only the load's part is known.
        sure = max((plain.deviation / _LOAD_SPREAD) ** 2, 1e-6)
        others = [*([0.0, *each] for each in others), [1.0, *loads]]
        values, weights, tested = [load_exponent, *values], [sure, *weights], [0.0, *tested]
    line = fit(values, weights, tested, others, _PERSISTENCE)
    return line if line is not None and abs(line.estimate) <= _MOST else None


def _judged(
    seen: Comparison, line: Fit, error: float, tolerated: float, spread: float, concern: float, power: int = 1
) -> Comparison:
    """Add what the fit says; `tolerated` is a logarithm, and so is `concern`, over which more is to be seen.

    `power` is that of time by which the information grows: a trend is known the better the longer it is seen.
    """
    sure = -log(error)
    evidence = line.log_evidence(tolerated, spread) if line.estimate > tolerated else 0.0
    margin = line.margin(error, spread)
    low, high = 0.0, None
    if margin is not None and margin <= _MOST:
        low, high = exp(line.estimate - margin), exp(line.estimate + margin)
    standing: Standing = "as_good"
    if evidence >= sure:
        standing = "worse"
    elif evidence >= LEANING or line.estimate > max(concern, _LIKELY * line.error):
        standing = "leaning"
    elif high is not None and high < 1.0:
        standing = "better"
    more = None
    if standing == "leaning":
        more = times_more(lambda times: line.times(times, power).log_evidence(tolerated, spread) >= sure)
    return msgspec.structs.replace(seen, standing=standing, ratio=exp(line.estimate), low=low, high=high, more=more)


def _means(
    moments: Sequence[Moment], measure: str, stratum: int | None
) -> tuple[tuple[float, int], tuple[float, int]] | None:
    sums = []
    for pieces in ([moment.baseline for moment in moments], [moment.candidate for moment in moments]):
        count, total = 0, 0.0
        for piece in pieces:
            for each, values in piece.moments.get(measure, {}).items():
                if stratum is None or each == stratum:
                    count += values.count
                    total += values.total
        if not count:
            return None
        sums.append((exp(total / count), count))
    return sums[0], sums[1]
