"""Score matches against labels: precision, recall and F1."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from safety.match import Match
from safety.sets.labelled import Span


class Score(NamedTuple):
    """Counts: `found` of the `labelled` items were found; `right` of the `reported` ones are labelled."""

    labelled: int = 0
    found: int = 0
    reported: int = 0
    right: int = 0

    def __add__(self, other: object) -> "Score":
        if not isinstance(other, Score):
            return NotImplemented
        return Score(*(mine + its for mine, its in zip(self, other, strict=True)))

    @property
    def missed(self) -> int:
        """The number of labelled items that were not found."""
        return self.labelled - self.found

    @property
    def false_alarms(self) -> int:
        """The number of reported items that are not labelled."""
        return self.reported - self.right

    @property
    def precision(self) -> float | None:
        """The share of reported items that are right; None if nothing was reported."""
        return self.right / self.reported if self.reported else None

    @property
    def recall(self) -> float | None:
        """The share of labelled items that were found; None if nothing is labelled."""
        return self.found / self.labelled if self.labelled else None

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall."""
        precision, recall = self.precision, self.recall
        if precision is None or recall is None:
            return None
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


class SpanDifference(NamedTuple):
    """The errors in one text: spans that no match of their kind overlaps, and matches that overlap no such span."""

    missed: tuple[Span, ...]
    false_alarms: tuple[Match, ...]


def difference(spans: Iterable[Span], matches: Iterable[Match]) -> SpanDifference:
    """Compare a text's labels with its matches."""
    spans, matches = tuple(spans), tuple(matches)
    labelled = _characters((span.kind, span.start, span.end) for span in spans)
    reported = _characters((match.label, match.start, match.end) for match in matches)
    return SpanDifference(
        tuple(span for span in spans if reported[span.kind].isdisjoint(range(span.start, span.end))),
        tuple(match for match in matches if labelled[match.label].isdisjoint(range(match.start, match.end))),
    )


def score_kinds(texts: Iterable[tuple[Sequence[Span], Sequence[Match]]]) -> Mapping[str, Score]:
    """Return the score of each kind that is labelled or reported, in alphabetic order."""
    scores: defaultdict[str, Score] = defaultdict(Score)
    for spans, matches in texts:
        missed, false_alarms = difference(spans, matches)
        for span in spans:
            scores[span.kind] += Score(labelled=1, found=1)
        for span in missed:
            scores[span.kind] += Score(found=-1)
        for match in matches:
            scores[match.label] += Score(reported=1, right=1)
        for match in false_alarms:
            scores[match.label] += Score(right=-1)
    return dict(sorted(scores.items()))


def score_any_kind(texts: Iterable[tuple[Sequence[Span], Sequence[Match]]]) -> Score:
    """Return the score if a match of any kind counts as right."""
    return sum(
        score_kinds(
            ([span._replace(kind="") for span in spans], [match._replace(label="") for match in matches])
            for spans, matches in texts
        ).values(),
        Score(),
    )


def score_threshold(texts: Iterable[tuple[bool, float]], threshold: float) -> Score:
    """Return the score of (label, number) texts if numbers from the threshold on are reported."""
    score = Score()
    for positive, number in texts:
        reported = int(number >= threshold)
        score += Score(int(positive), int(positive and reported), reported, int(positive and reported))
    return score


def best_recall(texts: Iterable[tuple[bool, float]], precision: float) -> tuple[float, Score] | None:
    """Return the threshold with the highest recall at this precision or more, and its score; None if there is none."""
    ordered = sorted(texts, key=lambda text: -text[1])
    positives = sum(positive for positive, _ in ordered)
    best: tuple[float, Score] | None = None
    right = reported = 0
    for threshold, group in groupby(ordered, key=lambda text: text[1]):
        for positive, _ in group:
            right += positive
            reported += 1
        if threshold > 0 and right >= precision * reported and (best is None or right > best[1].right):
            best = threshold, Score(positives, right, reported, right)
    return best


def _characters(stretches: Iterable[tuple[str, int, int]]) -> defaultdict[str, set[int]]:
    """Return the characters that the spans of each kind cover."""
    characters: defaultdict[str, set[int]] = defaultdict(set)
    for kind, start, end in stretches:
        characters[kind].update(range(start, end))
    return characters
