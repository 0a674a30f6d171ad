"""Compare two runs of a corpus, entry by entry, and hold what comes out against thresholds."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from gateway.rollouts.comparison.answer import Answer, expected_of
from gateway.rollouts.comparison.difference import AnswerDifference, compare
from gateway.rollouts.comparison.difference_sums import DifferenceReport, counts_of, report_of
from gateway.rollouts.replay.corpus import Entry
from gateway.rollouts.replay.run_file import Result

#: What a judge says of a candidate's answer; `unreadable`: the judge's own answer was not what it was asked for, or it
#: was refused the question.
Judged = Literal["better", "same", "worse", "unreadable"]


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """Thresholds of the difference between two runs.

    `similar` is the similarity from which on texts count as alike; the others are shares: the least that are `alike`,
    and the most that `failed`, are `broken` or were judged `worse`, of those that the judge's replies were readable
    for.
    """

    similar: float = 0.8
    alike: float = 0.9
    failed: float = 0.0
    broken: float = 0.0
    worse: float = 0.1


class EntryDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The difference of one entry. `failure` is the candidate's error."""

    id: str
    difference: AnswerDifference
    alike: bool
    failure: str = ""
    judged: Judged | None = None


class RunDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The difference of two whole runs.

    `missing` entries have no result in one of the runs; `seconds` are the medians of both sides, where the baseline was
    timed; `violations` say which thresholds do not hold, none if all do.
    """

    baseline: str
    candidate: str
    entries: int
    missing: int
    report: DifferenceReport
    judged: Mapping[str, int]
    seconds: tuple[float, float] | None
    violations: Sequence[str]
    differences: Sequence[EntryDifference]

    @property
    def passed(self) -> bool:
        """Whether every threshold holds."""
        return not self.violations


def recorded(entries: Sequence[Entry]) -> dict[str, Result]:
    """Give the answers that a corpus was recorded with, as results."""
    return {
        entry.id: Result(id=entry.id, answer=entry.answer, version=entry.version)
        for entry in entries
        if entry.answer is not None
    }


def compare_entry(
    entry: Entry, baseline: Result, candidate: Result, similar: float, embedded: float | None = None
) -> EntryDifference:
    """Compare the two results of one entry; `embedded` is the cosine of their texts' embeddings."""
    found = compare(baseline.answer, candidate.answer, expected_of(entry.body), embedded)
    failure = "" if candidate.failure is None else f"{candidate.failure.code or candidate.failure.status}"
    return EntryDifference(id=entry.id, difference=found, alike=found.alike(similar), failure=failure)


def pairs_of(
    entries: Sequence[Entry], baseline: Mapping[str, Result], candidate: Mapping[str, Result]
) -> list[tuple[Entry, Result, Result]]:
    """Give the entries that both sides have a result of, in the corpus' order."""
    return [
        (entry, baseline[entry.id], candidate[entry.id])
        for entry in entries
        if entry.id in baseline and entry.id in candidate
    ]


def summarize(
    pairs: Sequence[tuple[Entry, Result, Result]],
    differences: Sequence[EntryDifference],
    thresholds: Thresholds,
    *,
    names: tuple[str, str],
    entries: int,
) -> RunDifference:
    """Add the differences of all pairs up; `names` are the versions', `entries` is how many the corpus has."""
    counts: Counter[str] = Counter()
    for each in differences:
        counts.update(counts_of(each.difference, thresholds.similar))
    report = report_of(counts)
    judged = Counter(each.judged for each in differences if each.judged is not None)
    missing = entries - len(pairs)
    return RunDifference(
        baseline=names[0],
        candidate=names[1],
        entries=entries,
        missing=missing,
        report=report,
        judged={str(name): count for name, count in judged.items()},
        seconds=_medians(pairs),
        violations=_violations(report, judged, missing, thresholds),
        differences=differences,
    )


def _violations(report: DifferenceReport, judged: Counter[Judged], missing: int, thresholds: Thresholds) -> list[str]:
    found = []
    if missing:
        found.append(f"{missing} entries have no result in one of the runs")
    if not report.compared:
        return [*found, "no entry was answered by both sides"]
    if report.alike < thresholds.alike:
        found.append(f"{report.alike:.1%} of the answers are alike, less than {thresholds.alike:.1%}")
    if report.failure_rate > thresholds.failed:
        found.append(f"{report.failure_rate:.1%} of the requests failed, more than {thresholds.failed:.1%}")
    broken = report.broken / report.compared
    if broken > thresholds.broken:
        found.append(f"{broken:.1%} of the answers are broken JSON or calls, more than {thresholds.broken:.1%}")
    readable = judged.total() - judged["unreadable"]
    if readable and judged["worse"] / readable > thresholds.worse:
        found.append(
            f"{judged['worse'] / readable:.1%} of the answers were judged worse, more than {thresholds.worse:.1%}"
        )
    if readable < judged["unreadable"]:
        # A judge that says nothing is no judge that finds nothing.
        found.append(f"{judged['unreadable']} of the judge's {judged.total()} verdicts are unreadable, more than half")
    return found


def _medians(pairs: Sequence[tuple[Entry, Result, Result]]) -> tuple[float, float] | None:
    timed = [
        (one.seconds, other.seconds)
        for _, one, other in pairs
        if one.seconds and other.seconds and one.answer is not None and other.answer is not None
    ]
    if not timed:
        return None
    return statistics.median(one for one, _ in timed), statistics.median(other for _, other in timed)


def texts_to_embed(pairs: Sequence[tuple[Entry, Result, Result]]) -> list[tuple[int, str, str]]:
    """Give the places and texts of the pairs whose texts differ and have something to compare."""
    found = []
    for place, (_, baseline, candidate) in enumerate(pairs):
        one, other = _text(baseline.answer), _text(candidate.answer)
        if one and other and one != other:
            found.append((place, one, other))
    return found


def _text(answer: Answer | None) -> str:
    return "" if answer is None else answer.text
