"""Compare shares: of requests that failed, of answers that are empty, of calls that are invalid."""

from collections.abc import Sequence
from math import log

from routing.rollouts.measures.events import FAILED, RATES, REQUESTS, Rate
from routing.rollouts.measures.measures import Measures
from routing.rollouts.verdicts.blocks import Moment
from routing.rollouts.verdicts.hard_bound import log_evidence
from routing.rollouts.verdicts.rate_ratio import Cell, rate_ratio
from routing.rollouts.verdicts.still_needed import times_more
from routing.rollouts.verdicts.verdict import Comparison, Standing


def compare_rates(
    moments: Sequence[Moment], measure: str, error: float, tolerated: float, good: bool
) -> Comparison | None:
    """Compare how often a measure's event happens; None: nothing was counted that it could happen to.

    `tolerated` is a difference of the shares, and `good` says whether more is better.
    """
    rate = RATES[measure]
    (events, among), (others, other_among) = counted(moments, rate)
    if not among or not other_among:
        return None
    found = rate_ratio(_cells(moments, rate), error)
    ours, theirs = events / among, others / other_among
    behind = theirs - ours if good else ours - theirs
    standing: Standing = "as_good"
    more = None
    if behind > tolerated and found.evidence > 0.0:
        standing = "worse" if found.evidence >= -log(error) else "leaning"
        if standing == "leaning":
            more = times_more(lambda times: found.evidence_of(times) >= -log(error))
    elif behind < 0.0 and found.evidence >= -log(error):
        standing = "better"
    return Comparison(
        measure=measure,
        standing=standing,
        baseline=theirs,
        candidate=ours,
        ratio=ours / theirs if theirs else None,
        low=found.low,
        high=found.high,
        baseline_samples=other_among,
        candidate_samples=among,
        more=more,
    )


def more_for_rate(moments: Sequence[Moment], measure: str, error: float, margin: float) -> float | None:
    """Return how many times as many requests besides would make the ratio's logarithm known to within `margin`.

    None: it has not happened at both versions, so that nobody knows how often it does.
    """
    (events, _), (others, _) = counted(moments, RATES[measure])
    if not events or not others:
        return None
    variance = 1.0 / events + 1.0 / others
    return -2.0 * log(error) * variance / margin**2 - 1.0


def check_error_rate(baseline: Measures, candidate: Measures, error: float, bound: float) -> Comparison:
    """Test whether more than the share `bound` of the candidate's requests fail."""
    failed, among = candidate.total(FAILED), candidate.total(REQUESTS)
    theirs = baseline.total(REQUESTS)
    rate = failed / among if among else 0.0
    standing: Standing = "as_good" if among else "too_few"
    more = None
    if log_evidence(failed, among, bound) >= -log(error):
        standing = "worse"
    elif rate > bound:
        standing = "leaning"
        more = times_more(lambda times: log_evidence(times * failed, times * among, bound) >= -log(error))
    return Comparison(
        measure="error_rate",
        standing=standing,
        baseline=baseline.total(FAILED) / theirs if theirs else 0.0,
        candidate=rate,
        baseline_samples=theirs,
        candidate_samples=among,
        bound=bound,
        more=more,
    )


def counted(moments: Sequence[Moment], rate: Rate) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the events of the candidate and what they are among, and the same of the baseline."""
    event, among = rate.event, rate.among
    sums = [0, 0, 0, 0]
    for moment in moments:
        ours, theirs = moment.candidate.counts, moment.baseline.counts
        sums[0] += ours.get(event, 0)
        sums[1] += ours.get(among, 0)
        sums[2] += theirs.get(event, 0)
        sums[3] += theirs.get(among, 0)
    return (sums[0], sums[1]), (sums[2], sums[3])


def _cells(moments: Sequence[Moment], rate: Rate) -> list[Cell]:
    """Return the slices' cells."""
    if rate.told:
        return _told_cells(moments, rate)
    event, among = rate.event, rate.among
    found: list[Cell] = []
    for moment in moments:
        ours, theirs = moment.candidate.counts, moment.baseline.counts
        mine = ours.get(event, 0)
        events = mine + theirs.get(event, 0)
        if events:
            served = ours.get(among, 0)
            found.append(Cell(events, mine, served / max(served + theirs.get(among, 0), 1)))
    return found


def _told_cells(moments: Sequence[Moment], rate: Rate) -> list[Cell]:
    """Return a cell for each span in which shares stayed the same: one slice has the answers, and a later one what
    clients tell of them. A span with answers of one version alone says nothing.
    """
    sums: dict[int, list[int]] = {}
    epoch = 0
    for moment in moments:
        ours, theirs = moment.candidate.counts, moment.baseline.counts
        epoch = max(epoch, moment.baseline.epoch, moment.candidate.epoch)
        row = sums.setdefault(epoch, [0, 0, 0, 0])
        for place, counts in ((0, ours), (2, theirs)):
            row[place] += counts.get(rate.event, 0)
            row[place + 1] += counts.get(rate.among, 0)
    return [
        Cell(mine + others, mine, served / (served + other_served))
        for mine, served, others, other_served in sums.values()
        if mine + others and served and other_served
    ]
