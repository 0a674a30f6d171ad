"""The injection filter of prompts, which are there as a whole: what they say, and how they are worded."""

from collections.abc import Iterator
from typing import Final

from safety.injection.filter import InjectionFilter, Part, Scored, parts
from safety.injection.finder import MANY_IDLE, may_have_features, placed
from safety.injection.phrases import phrases
from safety.match import Match

_ROUNDING: Final = 1e-9
_NOTHING: Final = Scored(0.0, [])
WORDING: Final = "suspicious_wording"


class PromptInjectionFilter(InjectionFilter):
    """Sees more than its streams do: the score of the features and that of the wording speak for an attempt together.

    Neither alone must be sure. The wording of a text that cannot have features is not weighed: that would double the
    work, and find next to nothing. Where the features reach the threshold by themselves, the matches are theirs; where
    only both together do, they are every feature and the words that are worst.
    """

    def __init__(self, threshold: float = 0.5) -> None:
        super().__init__(threshold)
        self._least = threshold
        self._phrases = phrases()

    def may_match(self, data: bytes) -> bool:
        """Whether a plain text may have features."""
        return not self._sieve.lets_pass(data, idle=MANY_IDLE)

    def scan(self, text: str) -> list[Match]:
        """The matches of a whole prompt."""
        anchors = placed(text)
        if not may_have_features(anchors):
            return []
        found: list[Part] = []
        matches = self.matches(text, _kept(parts(text, anchors), found))
        if matches:
            return matches
        features = self.scored(found)
        # Together they reach the threshold if the wording comes to what is left of it.
        scored = self._with_wording(text, features, 1 - (1 - self._least) / (1 - features.score) - _ROUNDING)
        if scored.score < self._least:
            return []
        return _apart([match._replace(score=scored.score) for match in scored.matches])

    def score(self, text: str) -> Scored:
        """What speaks for an attempt in a prompt, whether it reaches the threshold or not."""
        anchors = placed(text)
        return self._with_wording(text, self.scored(parts(text, anchors))) if may_have_features(anchors) else _NOTHING

    def _with_wording(self, text: str, features: Scored, least: float = 0.0) -> Scored:
        worded = self._phrases.score(text, least)
        if not worded.score:
            return features
        score = 1 - (1 - features.score) * (1 - worded.score)
        wording = Match(worded.start, worded.end, WORDING, worded.score)
        return Scored(score, sorted([*features.matches, wording]))


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
