"""The filter of prompt injection and jailbreaks in answers; the base class of the filter of prompts."""

from collections.abc import Iterable
from typing import NamedTuple

from safety.injection.finder import Finder
from safety.injection.injection_rules import REACH, rules
from safety.injection.injection_stream import InjectionStream
from safety.injection.tally import Feature, Tally
from safety.match import Match
from safety.prefilter import Signs


class Scored(NamedTuple):
    """The evidence for an attempt in a text: its highest score, and every feature with its weight."""

    score: float
    matches: list[Match]


class InjectionFilter:
    """A `StreamFilter` of rules (rules.toml) over folded text, whose weights add up from left to right.

    A feature is a match if the score with it reaches the threshold; the match's label is the rule's family, its score
    the text's score there. At a full score the match extends to the end of the text: nothing after such words can be
    trusted.
    """

    def __init__(self, threshold: float = 0.5) -> None:
        self.threshold = threshold
        # Compiles the rules at start-up, not in the first request.
        rules()

    @property
    def signs(self) -> Signs:
        """The anchors of the rules."""
        return Signs(rules().signs)

    @property
    def window(self) -> int:
        return REACH

    def scan(self, text: str, plain: bytes | None = None) -> list[Match]:
        """Return the features at which the text's score is at the threshold or above; `plain` is not used."""
        del plain
        return Tally(self.threshold).matches(features(text), len(text))

    def stream(self) -> InjectionStream:
        return InjectionStream(self.threshold)

    def score(self, text: str) -> Scored:
        """Return the evidence for an attempt in the text, whether it reaches the threshold or not."""
        return scored(features(text))


def features(text: str) -> Iterable[Feature]:
    """Find the features of a whole text."""
    return Finder().find(text, last=True)


def scored(found: Iterable[Feature]) -> Scored:
    """Add up the features of a text."""
    tally = Tally(1.0)
    matches = []
    for feature in found:
        tally.add(feature)
        matches.append(Match(feature.start, feature.end, feature.family, feature.weight))
    return Scored(tally.highest, matches)
