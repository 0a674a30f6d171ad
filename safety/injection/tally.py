"""The score of a text, added up from left to right."""

from collections.abc import Iterable
from typing import Final

from safety.injection.finder import EVASION, Feature
from safety.match import Match

#: After so many characters a feature counts half: long texts do not become suspicious by their length.
_HALF_LIFE: Final = 1200.0
#: Disguises come in numbers where they are meant.
_HALF_LIFE_OF_EVASION: Final = 80.0


class Tally:
    """What the features so far say of a text. The same said again adds only what had faded since."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._score = 0.0
        self._at = 0
        self._last: dict[str, int] = {}
        #: The match that nothing after it can be trusted for: the score is full.
        self.full: Match | None = None

    def add(self, feature: Feature, base: int = 0) -> float:
        """The score with this feature, from 0 to 1. `base`: where the text begins that its places count from."""
        start = feature.start + base
        if start > self._at:
            self._score *= 0.5 ** ((start - self._at) / _HALF_LIFE)
            self._at = start
        last = self._last.get(feature.key)
        half = _HALF_LIFE_OF_EVASION if feature.family == EVASION else _HALF_LIFE
        self._score += feature.share if last is None else feature.share * (1 - 0.5 ** ((start - last) / half))
        self._last[feature.key] = start
        return min(1.0, self._score)

    def matches(self, features: Iterable[Feature], base: int, end: int) -> list[Match]:
        """Those with which the score is at the threshold or above; if it is full, the last one goes up to `end`."""
        matches = []
        for feature in features:
            score = self.add(feature, base)
            if score >= 1.0:
                self.full = Match(feature.start + base, end, feature.family, 1.0)
                matches.append(self.full)
                break
            if score >= self._threshold:
                matches.append(Match(feature.start + base, feature.end + base, feature.family, score))
        return matches
