"""The score of a text, added up from left to right."""

from typing import Final

from safety.injection.finder import Feature

#: After so many characters a feature counts half: long texts do not become suspicious by their length.
_HALF_LIFE: Final = 1200.0


class Tally:
    """What the features so far say of a text. The same said again adds only what had faded since."""

    def __init__(self) -> None:
        self._score = 0.0
        self._at = 0
        self._last: dict[object, int] = {}

    def add(self, feature: Feature) -> float:
        """The score with this feature, from 0 to 1."""
        start = feature.start
        if start > self._at:
            self._score *= 0.5 ** ((start - self._at) / _HALF_LIFE)
            self._at = start
        last = self._last.get(feature.key)
        share = feature.share if last is None else feature.share * (1 - 0.5 ** ((start - last) / _HALF_LIFE))
        self._last[feature.key] = start
        self._score += share
        return min(1.0, self._score)
