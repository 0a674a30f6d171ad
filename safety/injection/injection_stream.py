"""Find injection attempts in a streamed text."""

from collections.abc import Sequence

from safety.injection.finder import Finder
from safety.injection.tally import Tally
from safety.match import Match


class InjectionStream(Finder):
    """The `Stream` of an InjectionFilter. It holds back what may begin an attempt, at most `REACH` characters."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self._tally = Tally(threshold)
        self._length = 0

    def feed(self, text: str) -> Sequence[Match]:
        self._length += len(text)
        if self.passes(text):
            return ()
        return self._advance(text, last=False)

    def finish(self) -> Sequence[Match]:
        return self._advance("", last=True)

    def _advance(self, text: str, *, last: bool) -> Sequence[Match]:
        full, begin = self._tally.full, self.open
        if full is None:
            matches = self._tally.matches(self.find(text, last=last), self._length)
            if self._tally.full is None:
                return matches
            # All text after a full score is part of its match.
            self.waits = True
        else:
            matches = [full._replace(start=begin, end=self._length)] if self._length > begin else []
        self.open = self._length
        return matches
