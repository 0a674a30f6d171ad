"""The injection filter of prompts, which are whole texts: rules and wording together."""

import math
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from safety.injection.finder import Finder
from safety.injection.fold import fold
from safety.injection.injection_filter import InjectionFilter, Scored, scored
from safety.injection.injection_rules import rules
from safety.injection.phrases import WordingScore, phrases
from safety.injection.tally import Feature, Tally
from safety.languages import OTHER_LETTERS, may_be_other_language
from safety.match import Match
from safety.patterns import ANY_CASE, Patterns, Sign
from safety.plain_text import plain_bytes
from safety.prefilter import Signs

#: From this score on features alone decide: harmless words around an order do not take it back.
CERTAIN: Final = 0.75
_ROUNDING: Final = 1e-9
_MOST_ODDS: Final = 30.0
_NOTHING: Final = Scored(0.0, [])
WORDING: Final = "suspicious_wording"
_has_other_letters: Final = Patterns([OTHER_LETTERS.expression]).any_in


class PromptInjectionFilter(InjectionFilter):
    """An InjectionFilter whose `scan` combines features and wording; its streams use features alone.

    Their log-odds add up; features with a `CERTAIN` score count by themselves. The wording is weighed only in texts
    with a rule's anchor or a telling phrase, and in texts in languages other than English. If both together reach the
    threshold, the matches are all features and the worst stretch of words.
    """

    def __init__(self, threshold: float = 0.5) -> None:
        super().__init__(threshold)
        self._phrases = phrases()
        _telling()

    @property
    def signs(self) -> Signs:
        """The anchors of the rules, telling phrases, and letters of other languages."""
        return Signs([*rules().signs, *_telling_signs()], weighs_languages=True)

    def scan(self, text: str, plain: bytes | None = None) -> list[Match]:
        """Return the matches of a whole prompt; `plain` is the text's `plain_bytes`, if known."""
        found: list[Feature] = []
        finder, tally = Finder(), Tally(max(self.threshold, CERTAIN))
        certain = tally.matches(_recorded(finder.find(text, last=True), found), len(text))
        if certain:
            return certain
        if not finder.anchored and not is_worth_weighing(text, plain):
            return []
        worded = self._phrases.weigh(text, _odds(self.threshold) - self._phrases.features * tally.highest - _ROUNDING)
        if worded is None:
            return []
        both = self._together(scored(found), worded)
        if both.score < self.threshold:
            return []
        return _without_overlaps([match._replace(score=both.score) for match in both.matches])

    def score(self, text: str) -> Scored:
        """Return the evidence for an attempt in a prompt, whether it reaches the threshold or not."""
        finder = Finder()
        found = list(finder.find(text, last=True))
        worded = self._phrases.weigh(text) if finder.anchored or is_worth_weighing(text) else None
        return _NOTHING if worded is None else self._together(scored(found), worded)

    def _together(self, features: Scored, worded: WordingScore) -> Scored:
        """Combine features and wording."""
        if not features.matches and not worded.end:
            return _NOTHING
        score = _probability(self._phrases.features * features.score + worded.odds)
        if features.score >= CERTAIN:
            score = max(score, features.score)
        matches = features.matches
        if worded.end:
            matches = sorted([*matches, Match(worded.start, worded.end, WORDING, _probability(worded.odds))])
        return Scored(score, matches)


def is_worth_weighing(text: str, plain: bytes | None = None) -> bool:
    """Whether a text without anchors has a telling phrase, or is in a language other than English."""
    if plain is None:
        plain = plain_bytes(text)
    if _telling().any_in(b" %b " % (fold(text).text.encode() if plain is None else plain)):
        return True
    if text.isascii():
        return False
    data = text.encode("utf-8", "surrogatepass") if plain is None else plain
    return may_be_other_language(len(text), len(data)) and _has_other_letters(data)


def _telling_signs() -> list[Sign]:
    return [Sign(re.escape(phrase.strip()).replace("\\ ", " ").encode(), ANY_CASE) for phrase in phrases().telling]


@cache
def _telling() -> Patterns:
    return Patterns([sign.expression for sign in _telling_signs()], ANY_CASE)


def _odds(score: float) -> float:
    return math.log(max(score, _ROUNDING) / max(1 - score, _ROUNDING))


def _probability(odds: float) -> float:
    return 1 / (1 + math.exp(-max(-_MOST_ODDS, min(_MOST_ODDS, odds))))


def _recorded(found: Iterable[Feature], kept: list[Feature]) -> Iterator[Feature]:
    """Yield the features; append each that is consumed to `kept`."""
    for feature in found:
        kept.append(feature)
        yield feature


def _without_overlaps(matches: list[Match]) -> list[Match]:
    """Drop matches that overlap an earlier one."""
    kept: list[Match] = []
    for match in matches:
        if not kept or match.start >= kept[-1].end:
            kept.append(match)
    return kept
