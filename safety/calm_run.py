"""A run of calm pieces of one screened text (`safety.calm`)."""

from typing import Final

import msgspec

from safety.calm import NO_PIECES, NOT_CALM, CalmPieces

#: Text that is kept, in characters, without what is not released.
_MOST_KEPT: Final = 1024


class CalmRun(msgspec.Struct, eq=False):
    """Releases words of prose as `Screen._scan` would, without a look at any stream."""

    #: The pieces that are calm, and those that need no more than `feed`: the same, or none.
    pieces: CalmPieces
    simple: CalmPieces
    #: The text before the run, and all of the run.
    text: str
    #: Where in it the run begins, which the streams are not fed, ...
    begin: int
    #: ... what is not released, and what is undecided.
    place: int
    open: int
    #: Whether decided text waits for the next piece (`open` is told only then; else it is `place`), ...
    lags: bool
    #: ... and whether half of it will, since the last piece decided nothing.
    halts: bool

    def feed(self, text: str) -> str | None:
        """Take the next piece; return the text that may be shown now. None: the run is over, without this piece."""
        undecided = self.simple[text]
        if undecided < 0:
            return self._go_on(text)
        self.text = whole = self.text + text
        begin, end = self.place, len(whole) - undecided
        if self.lags:
            end, self.open = self.open, end
        self.place = end
        if end > _MOST_KEPT:
            self.simple = NO_PIECES
        return whole[begin:end]

    def _go_on(self, text: str) -> str | None:
        """Take a piece that goes on with a word, or comes after one that did."""
        whole, begin = self.text + text, self.place
        end = before = self.first_open
        undecided = self.pieces[text]
        goes_on = undecided < 0
        if undecided == NOT_CALM or begin > _MOST_KEPT or (goes_on and len(whole) - before > self.pieces.longest_word):
            return None
        if not goes_on:
            self.open = after = len(whole) - undecided
            if self.halts:
                end = after - (after - before) // 2
            elif not self.lags:
                end = after
            self.lags = end < after
        else:
            self.lags = False
        self.text, self.place, self.halts = whole, end, goes_on
        self.simple = NO_PIECES if goes_on else self.pieces
        return whole[begin:end]

    @property
    def first_open(self) -> int:
        """Where the undecided text begins."""
        return self.open if self.lags else self.place

    @property
    def received(self) -> int:
        """The characters of the run."""
        return len(self.text) - self.begin
