"""Pieces of text that pass all filters of a screen by one look at a table: words of prose.

A text is calm while nothing but a word at its end is undecided. Each filter tells once for each piece, with no regard
to what came before it in a calm text, how the text ends after it; the screen asks its filters' streams no more until a
piece comes that is not calm, and then tells them what has passed.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, Protocol

from safety.filter import Stream, StreamFilter

#: Says how a calm text ends after a piece: so many characters of it are undecided, those of a word; or the word before
#: it goes on, with the whole piece: then the number is negative. None: the text is not calm after it.
CalmEnd = Callable[[str], int | None]
#: Longer pieces are not calm.
LONGEST_PIECE: Final = 16
#: What `CalmPieces` have in place of None; less than of any piece.
NOT_CALM: Final = -1_000
_MOST_PIECES: Final = 65_536


class CalmStream(Stream, Protocol):
    """A stream that may be left out while its text is calm."""

    @property
    def calm_word(self) -> int:
        """The most characters of an undecided word with which the text is calm; negative: it is not calm now."""
        ...

    def pass_by(self, text: str, word: int) -> None:
        """Take calm pieces, which it was not fed; `word`: the length of the word at their end that a filter holds."""
        ...


class CalmPieces(dict[str, int]):
    """How a calm text ends after each piece, for all filters of a screen (see `CalmEnd`); found on first use.

    A text with an undecided word of more than `longest_word` characters is not calm.
    """

    def __init__(self, ends: Iterable[CalmEnd], longest_word: int) -> None:
        super().__init__()
        self._ends = tuple(ends)
        self.longest_word = longest_word

    def __missing__(self, piece: str) -> int:
        if not 0 < len(piece) <= LONGEST_PIECE:
            return NOT_CALM
        found = [NOT_CALM if (end := ask(piece)) is None else end for ask in self._ends]
        if len(self) >= _MOST_PIECES:
            self.clear()
        together = min(found) if min(found) < 0 else max(found)
        self[piece] = together = together if abs(together) <= self.longest_word else NOT_CALM
        return together


class _NoPieces(CalmPieces):
    """No piece is calm."""

    def __missing__(self, piece: str) -> int:
        return NOT_CALM


#: For texts whose next piece must be looked at, whatever it is.
NO_PIECES: Final = _NoPieces((), 0)


def calm_ends(filters: Iterable[StreamFilter]) -> frozenset[CalmEnd] | None:
    """Return what filters say of pieces; None: one of them must see every piece."""
    ends: list[CalmEnd | None] = [getattr(each, "calm_end", None) for each in filters]
    told = frozenset([end for end in ends if end is not None])
    return told if ends and None not in ends else None


@lru_cache(maxsize=64)
def calm_pieces(ends: frozenset[CalmEnd], longest_word: int) -> CalmPieces:
    """Return the table of these filters, which all texts share."""
    return CalmPieces(ends, longest_word)
