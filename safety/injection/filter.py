"""The filter of prompt injection and jailbreaks."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from safety.injection.cues import REACH
from safety.injection.finder import Feature, find
from safety.injection.lexicon import lexicon
from safety.injection.signs import signs_of_answers
from safety.injection.stream import InjectionStream
from safety.injection.stretches import Stretch, stretches
from safety.injection.tally import Tally
from safety.match import Match
from safety.sieve import Signs

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
        self.threshold = threshold
        # It takes two seconds to build: at the start, and not in the first request.
        lexicon()

    @property
    def signs(self) -> Signs:
        """Its anchors."""
        return signs_of_answers()

    @property
    def window(self) -> int:
        """The most characters that a stream holds back."""
        return REACH

    @property
    def batch(self) -> int:
        """A look costs much the same for a character and for so many."""
        return _BATCH

    def scan(self, text: str, plain: bytes | None = None) -> list[Match]:
        """The features of the text with which its score is at the threshold or above."""
        found = stretches(text, plain)
        return matches(text, parts(found), Tally(self.threshold)) if found else []

    def stream(self) -> InjectionStream:
        """A stream for one text."""
        return InjectionStream(self.threshold)

    def score(self, text: str) -> Scored:
        """What speaks for an attempt in the text, whether it reaches the threshold or not."""
        return scored(parts(stretches(text)), Tally(self.threshold))


def matches(text: str, found: Iterable[Part], tally: Tally) -> list[Match]:
    """The matches in a text of what was found in its parts, added up in the tally."""
    all_: list[Match] = []
    for features, base in found:
        all_ += tally.matches(features, base, len(text))
        if tally.full:
            break
    return all_


def scored(found: Iterable[Part], tally: Tally) -> Scored:
    """What was found in a text's parts, added up in the tally."""
    said = []
    for features, base in found:
        for feature in features:
            tally.add(feature, base)
            said.append(Match(feature.start + base, feature.end + base, feature.family, feature.share))
    return Scored(tally.highest, said)


def parts(found: Iterable[Stretch]) -> Iterator[Part]:
    """The features of a text's stretches."""
    for stretch in found:
        features, _ = find(stretch)
        yield features, stretch.base
