"""The filter of prompt injection and jailbreaks in answers, and what it shares with the one of prompts."""

from collections.abc import Iterable
from typing import NamedTuple

from safety.injection.finder import Finder
from safety.injection.injection_rules import REACH, rules
from safety.injection.injection_stream import BATCH, InjectionStream
from safety.injection.tally import Feature, Tally
from safety.match import Match
from safety.prefilter import Signs


class Scored(NamedTuple):
    """What speaks for an attempt in a text: its highest score, and every feature with its weight."""

    score: float
    matches: list[Match]


class InjectionFilter:
    """Rules (rules.toml) over folded text, whose weights add up from left to right.

    A feature is a match where the score with it reaches the threshold; the match's label is the rule's family, its
    score the text's score there. Where the score is full, the match goes on to the end of the text: nothing after such
    words can be trusted.
    """

    def __init__(self, threshold: float = 0.5) -> None:
        self.threshold = threshold
        # They are compiled at the start, and not in the first request.
        rules()

    @property
    def signs(self) -> Signs:
        """What a rule begins with."""
        return Signs(rules().signs)

    @property
    def window(self) -> int:
        """The most characters that a stream holds back."""
        return REACH

    @property
    def batch(self) -> int:
        """A look costs much the same for a character and for so many."""
        return BATCH

    def scan(self, text: str, plain: bytes | None = None) -> list[Match]:
        """The features of the text with which its score is at the threshold or above; `plain` is of no use."""
        del plain
        return Tally(self.threshold).matches(features(text), len(text))

    def stream(self) -> InjectionStream:
        """A stream for one text."""
        return InjectionStream(self.threshold)

    def score(self, text: str) -> Scored:
        """What speaks for an attempt in the text, whether it reaches the threshold or not."""
        return scored(features(text))


def features(text: str) -> Iterable[Feature]:
    """The features of a whole text."""
    return Finder().feed(text, last=True)


def scored(found: Iterable[Feature]) -> Scored:
    """The features of a text, added up."""
    tally = Tally(1.0)
    said = []
    for feature in found:
        tally.add(feature)
        said.append(Match(feature.start, feature.end, feature.family, feature.weight))
    return Scored(tally.highest, said)
