"""Score a text: add up the weights of rules that match near each other."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from safety.match import Match

#: The distance, in characters, over which a rule still counts: long texts do not become suspicious by their length.
_MEMORY: Final = 1200


class Feature(NamedTuple):
    """A match of a rule at characters `start` to `end` of a text. Features of the same `rule` count once."""

    start: int
    end: int
    family: str
    weight: float
    rule: str


class Tally:
    """The score of one text so far, from 0 to 1: the sum of the weights of the rules that matched last."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        #: The place and weight of each rule's last match.
        self._last: dict[str, tuple[int, float]] = {}
        self._reported_end = 0
        #: The highest score so far.
        self.highest = 0.0
        #: The match with which the score is full, if it is.
        self.full: Match | None = None

    def add(self, feature: Feature) -> float:
        """Add a feature, which must not begin before earlier ones; return the score."""
        start = feature.start
        self._last[feature.rule] = start, feature.weight
        score = min(1.0, sum(weight for place, weight in self._last.values() if start - place <= _MEMORY))
        self.highest = max(self.highest, score)
        return score

    def matches(self, features: Iterable[Feature], end: int) -> list[Match]:
        """Return features at which the score is at the threshold or above; at a full score the last extends to `end`.

        A feature that begins inside another match adds to the score; its match starts at the other one's end.
        """
        matches = []
        for feature in features:
            score = self.add(feature)
            if score < self._threshold:
                continue
            start, stop = max(feature.start, self._reported_end), feature.end if score < 1.0 else end
            if start < stop:
                match = Match(start, stop, feature.family, score)
                self._reported_end = stop
                matches.append(match)
            if score >= 1.0:
                self.full = Match(start, stop, feature.family, score)
                break
        return matches
