"""The filter of prompt injection and jailbreaks."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from safety.injection.cues import BEHIND, REACH
from safety.injection.finder import Feature, Placed, features_at, find, placed
from safety.injection.lexicon import lexicon
from safety.injection.stream import InjectionStream
from safety.injection.tally import Tally
from safety.match import Match

#: Long texts are searched in parts of so many characters.
_PART: Final = 8192
#: So many characters are gathered for a stream, whose looks are costly.
_BATCH: Final = 24


#: The features of a part of a text in order, with the character that their places count from.
Part = tuple[list[Feature], int]


class Scored(NamedTuple):
    """What speaks for an attempt in a text: its highest score, and every feature with its share of it."""

    score: float
    matches: list[Match]


class InjectionFilter:
    """Heuristics scored over normalised text.

    The score is added up from left to right, and fades with distance. A feature is a match where the score with it
    reaches the threshold; the match's label is the feature's family, its score the text's score there. Where the score
    is full, the match goes on to the end of the text: nothing after such words can be trusted.
    """

    def __init__(self, threshold: float = 0.5) -> None:
        self._threshold = threshold
        self._sieve = lexicon().sieve

    @property
    def window(self) -> int:
        """The most characters that a stream holds back."""
        return REACH

    @property
    def batch(self) -> int:
        """A look costs much the same for a character and for so many."""
        return _BATCH

    def scan(self, text: str) -> list[Match]:
        """The features of the text with which its score is at the threshold or above."""
        return self.matches(text, parts(text))

    def matches(self, text: str, found: Iterable[Part]) -> list[Match]:
        """The same of what was found in its parts."""
        tally = Tally(self._threshold)
        matches: list[Match] = []
        for features, base in found:
            matches += tally.matches(features, base, len(text))
            if tally.full:
                break
        return matches

    def may_match(self, data: bytes) -> bool:
        """Whether an anchor may be in a plain text."""
        return not self._sieve.lets_pass(data, idle=1)

    def stream(self) -> InjectionStream:
        """A stream for one text."""
        return InjectionStream(self._threshold)

    def score(self, text: str) -> Scored:
        """What speaks for an attempt in the text, whether it reaches the threshold or not."""
        return self.scored(parts(text))

    def scored(self, found: Iterable[Part]) -> Scored:
        """The same of what was found in a text's parts."""
        tally = Tally(self._threshold)
        highest = 0.0
        matches = []
        for features, base in found:
            for feature in features:
                highest = max(highest, tally.add(feature, base))
                matches.append(Match(feature.start + base, feature.end + base, feature.family, feature.share))
        return Scored(highest, matches)


def parts(text: str, anchors: Placed | None = None) -> Iterator[Part]:
    """The features of a text, part by part; its `anchors`, where they are known, need not be looked for again."""
    if len(text) <= _PART:
        yield features_at(text, placed(text) if anchors is None else anchors), 0
        return
    for begin in range(0, len(text), _PART):
        base = max(0, begin - BEHIND)
        features, _ = find(text[base : begin + _PART + REACH], begin - base, begin - base + _PART)
        yield features, base
