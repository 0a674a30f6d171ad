"""The injection filter of prompts, which are there as a whole: what they say, and how they are worded."""

import math
from collections.abc import Iterator
from typing import Final

from safety.injection.filter import InjectionFilter, Part, Scored, matches, parts, scored
from safety.injection.phrases import Worded, phrases
from safety.injection.signs import signs_of_prompts
from safety.injection.stretches import worth_searching
from safety.injection.tally import Tally
from safety.match import Match
from safety.sieve import Signs

#: From this score on features need nothing else: harmless words around an order do not take it back.
CERTAIN: Final = 0.75
_ROUNDING: Final = 1e-9
_MOST_ODDS: Final = 30.0
_NOTHING: Final = Scored(0.0, [])
WORDING: Final = "suspicious_wording"


class PromptInjectionFilter(InjectionFilter):
    """Sees more than its streams do: features and wording speak for an attempt, or against one, together.

    Their log-odds add up, and only where the features are `CERTAIN` their score counts by itself. The wording of a text
    that is not worth a search is not weighed: that would double the work, and find little. Where the features are
    certain and reach the threshold, the matches are theirs; where both together do, they are every feature and the
    words that are worst.
    """

    def __init__(self, threshold: float = 0.5) -> None:
        super().__init__(threshold)
        self._phrases = phrases()

    @property
    def signs(self) -> Signs:
        """Its anchors, and other languages' letters."""
        return signs_of_prompts()

    def scan(self, text: str, plain: bytes | None = None) -> list[Match]:
        """The matches of a whole prompt."""
        worth = worth_searching(text, plain)
        if not worth:
            return []
        found: list[Part] = []
        tally = Tally(max(self.threshold, CERTAIN))
        certain = matches(text, _kept(parts(worth), found), tally)
        if certain or not found:
            return certain
        worded = self._phrases.weigh(text, _odds(self.threshold) - self._phrases.features * tally.highest - _ROUNDING)
        if worded is None:
            return []
        both = self._together(scored(found, Tally(self.threshold)), worded)
        if both.score < self.threshold:
            return []
        return _apart([match._replace(score=both.score) for match in both.matches])

    def score(self, text: str) -> Scored:
        """What speaks for an attempt in a prompt, whether it reaches the threshold or not."""
        found = list(parts(worth_searching(text)))
        worded = self._phrases.weigh(text) if found else None
        return _NOTHING if worded is None else self._together(scored(found, Tally(self.threshold)), worded)

    def _together(self, features: Scored, worded: Worded) -> Scored:
        """What both say of a text."""
        if not features.matches and not worded.end:
            return _NOTHING
        score = _probability(self._phrases.features * features.score + worded.odds)
        if features.score >= CERTAIN:
            score = max(score, features.score)
        said = features.matches
        if worded.end:
            said = sorted([*said, Match(worded.start, worded.end, WORDING, _probability(worded.odds))])
        return Scored(score, said)


def _odds(score: float) -> float:
    return math.log(max(score, _ROUNDING) / max(1 - score, _ROUNDING))


def _probability(odds: float) -> float:
    return 1 / (1 + math.exp(-max(-_MOST_ODDS, min(_MOST_ODDS, odds))))


def _kept(parts_: Iterator[Part], kept: list[Part]) -> Iterator[Part]:
    """The same parts; those that somebody has taken are kept."""
    for part in parts_:
        kept.append(part)
        yield part


def _apart(matches: list[Match]) -> list[Match]:
    """In order; what overlaps an earlier one is left out."""
    kept: list[Match] = []
    for match in matches:
        if not kept or match.start >= kept[-1].end:
            kept.append(match)
    return kept
