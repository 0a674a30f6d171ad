"""The filter of prompt injection and jailbreaks."""

from typing import NamedTuple

from safety.injection.cues import REACH
from safety.injection.finder import find
from safety.injection.lexicon import lexicon
from safety.injection.stream import InjectionStream
from safety.injection.tally import Tally
from safety.match import Match, merged


class Scored(NamedTuple):
    """What speaks for an attempt in a text: its highest score, and every feature with its share of it."""

    score: float
    matches: list[Match]


class InjectionFilter:
    """Heuristics scored over normalised text.

    The score is added up from left to right, and fades with distance. A feature is a match where the score with it
    reaches the threshold; the match's label is the feature's family, its score the text's score there.
    """

    def __init__(self, threshold: float = 0.5) -> None:
        self._threshold = threshold
        lexicon()

    @property
    def window(self) -> int:
        """The most characters that a stream holds back."""
        return REACH

    def scan(self, text: str) -> list[Match]:
        """The features of the text with which its score is at the threshold or above."""
        features = find(text)[0]
        if not features:
            return []
        tally = Tally()
        matches = []
        for feature in features:
            score = tally.add(feature)
            if score >= self._threshold:
                matches.append(Match(feature.start, feature.end, feature.family, score))
        return merged(matches)

    def stream(self) -> InjectionStream:
        """A stream for one text."""
        return InjectionStream(self._threshold)

    def score(self, text: str) -> Scored:
        """What speaks for an attempt in the text, whether it reaches the threshold or not."""
        tally = Tally()
        highest = 0.0
        matches = []
        for feature in find(text)[0]:
            highest = max(highest, tally.add(feature))
            matches.append(Match(feature.start, feature.end, feature.family, feature.share))
        return Scored(highest, matches)
