"""Measure filters on labelled texts for `penstock safety bench`."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from safety.filter import StreamFilter
from safety.injection.injection_filter import InjectionFilter
from safety.match import Match
from safety.pii.kinds import KINDS
from safety.sets.labelled import InjectionText, Span, SpanText
from safety.sets.scoring import Score, best_recall, difference, score_any_kind, score_kinds, score_threshold

#: The best recall is sought among thresholds with at least this precision.
PRECISION: Final = 0.9


class Miss(NamedTuple):
    """A labelled stretch that was not found, or a match that is not labelled, in its text."""

    kind: str
    text: str
    start: int
    end: int


class SpanMeasures(NamedTuple):
    """Precision and recall of filters together on labelled stretches."""

    filters: Sequence[str]
    texts: int
    kinds: Mapping[str, Score]
    all: Score
    any_kind: Score
    misses: Sequence[Miss]
    false_alarms: Sequence[Miss]


class Family(NamedTuple):
    """Verdicts on one family of texts, attacks and others."""

    score: Score
    texts: int


class InjectionMeasures(NamedTuple):
    """Separation of attacks and other texts by a filter; `best` is the threshold with the most recall at that
    precision.
    """

    filter: str
    texts: int
    threshold: float
    families: Mapping[str, Family]
    all: Score
    precision: float
    best: tuple[float, Score] | None
    misses: Sequence[Miss]
    false_alarms: Sequence[Miss]


def span_measures(
    filters: Mapping[str, StreamFilter], kinds: frozenset[str], texts: Sequence[SpanText]
) -> SpanMeasures:
    """Measure what the filters find together; overlapping matches count once.

    `kinds` are those that the filters look for; labels of other known kinds do not count, nor do matches of filters
    such as blocklists whose label is nowhere in the texts.
    """
    labels = {span.kind for text in texts for span in text.spans}
    compared: list[tuple[Sequence[Span], Sequence[Match]]] = []
    misses: list[Miss] = []
    false_alarms: list[Miss] = []
    for text in texts:
        spans = [span for span in text.spans if span.kind in kinds or span.kind not in KINDS]
        matches = sorted(
            {
                match
                for one in filters.values()
                for match in one.scan(text.text)
                if match.label in labels or match.label in KINDS
            }
        )
        compared.append((spans, matches))
        missed, alarms = difference(spans, matches)
        misses += (Miss(span.kind, text.text, span.start, span.end) for span in missed)
        false_alarms += (Miss(match.label, text.text, match.start, match.end) for match in alarms)
    scores = score_kinds(compared)
    return SpanMeasures(
        list(filters), len(texts), scores, sum(scores.values(), Score()), score_any_kind(compared), misses, false_alarms
    )


def injection_measures(
    name: str, filter_: InjectionFilter, threshold: float, texts: Sequence[InjectionText]
) -> InjectionMeasures:
    """Measure the filter's scores of the texts."""
    guarded = [(text, filter_.score(text.text).score) for text in texts]
    numbers = [(text.injection, score) for text, score in guarded]
    return InjectionMeasures(
        filter=name,
        texts=len(texts),
        threshold=threshold,
        families=_families(guarded, threshold),
        all=score_threshold(numbers, threshold),
        precision=PRECISION,
        best=best_recall(numbers, PRECISION),
        misses=[_whole(text, score) for text, score in guarded if text.injection and score < threshold],
        false_alarms=[_whole(text, score) for text, score in guarded if not text.injection and score >= threshold],
    )


def _families(guarded: Sequence[tuple[InjectionText, float]], threshold: float) -> dict[str, Family]:
    families: dict[str, list[tuple[bool, float]]] = {}
    for text, score in guarded:
        families.setdefault(text.family, []).append((text.injection, score))
    return {
        name: Family(score_threshold(numbers, threshold), len(numbers)) for name, numbers in sorted(families.items())
    }


def _whole(text: InjectionText, score: float) -> Miss:
    return Miss(f"{text.family or 'injection'} {score:.2f}", text.text, 0, len(text.text))
