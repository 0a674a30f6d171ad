"""Find injection attempts in a streamed text."""

from collections.abc import Sequence
from typing import Final

from safety.injection.finder import Finder
from safety.injection.injection_rules import REACH
from safety.injection.tally import Tally
from safety.match import Match

#: The number of characters gathered for each search.
BATCH: Final = 24


class InjectionStream:
    """The `Stream` of an InjectionFilter. It holds back gathered text and possible match begins, at most `REACH`."""

    def __init__(self, threshold: float) -> None:
        self._tally = Tally(threshold)
        self._finder = Finder()
        self._pieces: list[str] = []
        self._length = 0
        self._due = 0

    @property
    def open(self) -> int:
        return self._finder.open

    def feed(self, text: str) -> Sequence[Match]:
        self._pieces.append(text)
        self._length += len(text)
        return () if self._length < self._due else self._search(last=False)

    def finish(self) -> Sequence[Match]:
        return self._search(last=True)

    def _search(self, *, last: bool) -> Sequence[Match]:
        full, begin = self._tally.full, self._finder.open
        text = "".join(self._pieces)
        self._pieces.clear()
        if full is None:
            matches = self._tally.matches(self._finder.feed(text, last=last), self._length)
            if self._tally.full is None:
                self._due = self._finder.open + REACH
                if not self._finder.waits:
                    self._due = min(self._due, self._length + BATCH)
                return matches
        else:
            # All text after a full score is part of its match.
            matches = [full._replace(start=begin, end=self._length)] if self._length > begin else []
        self._finder.open, self._due = self._length, 0
        return matches
