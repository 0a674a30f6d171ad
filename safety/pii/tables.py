"""Cells of tables whose header says that they are personal data or secrets.

A table is a header and the lines after it that have as many delimiters, lines that only set others apart aside. A cell
counts unless something up to 64 characters from where it begins speaks against it: it ends later, or its line has
more or fewer delimiters. So it can be told as its line comes, and a whole text is one that comes at once.
"""

from bisect import bisect_left
from collections.abc import Collection
from typing import Final

from safety.match import Match
from safety.pii.cells import SHORTEST, counts
from safety.pii.columns import LONGEST_HEADER, Header, Walk, has_header, header_of, ruled

#: From where a cell begins, so much decides.
_WINDOW: Final = 64
#: A table ends with a line that is longer.
_LONGEST_ROW: Final = 4096
_QUOTES: Final = "\"'`"
#: What columns may have.
KINDS_OF_CELLS: Final = frozenset({"password", "generic_secret", "id_number", "phone"})


class Tables:
    """Reads one text that comes in pieces, or as a whole, and finds the cells that count."""

    __slots__ = (
        "_at",
        "_found",
        "_header",
        "_kinds",
        "_next",
        "_open",
        "_places",
        "_previous",
        "_read",
        "_row",
        "_walk",
    )

    def __init__(self, kinds: Collection[str]) -> None:
        self._kinds = kinds
        self._header: Header | None = None
        # The line before this one, where it was not too long, ...
        self._previous: str | None = None
        # ... and this one, as far as it may matter: where it begins, ...
        self._at = 0
        self._row = ""
        # ... in a table where its delimiters are, and which of the columns that count is to be decided next.
        self._walk = Walk(",")
        self._places: list[int] = []
        self._next = 0
        self._read = 0
        self._open = 0
        self._found: list[Match] = []

    @property
    def inside(self) -> bool:
        """What comes next may be part of a table."""
        return self._header is not None

    @property
    def open(self) -> int:
        """Nothing is decided from this character on."""
        return self._open

    def feed(self, text: str) -> list[Match]:
        """The next piece; gives the cells that are certain now."""
        start = 0
        end = text.find("\n")
        while end >= 0:
            self._go_on(text[start:end], complete=True)
            start = end + 1
            end = text.find("\n", start)
        if start < len(text):
            self._go_on(text[start:])
        return self._taken()

    def finish(self) -> list[Match]:
        """The text has ended; gives the rest."""
        if self._header is not None:
            self._decide(self._header, ended=True)
        return self._taken()

    def _taken(self) -> list[Match]:
        found, self._found = self._found, []
        return found

    def _go_on(self, piece: str, *, complete: bool = False) -> None:
        """More of a line; all the rest of it, if it is complete."""
        self._read = self._open = self._read + len(piece) + complete
        header = self._header
        if header is None:
            if len(self._row) <= LONGEST_HEADER:
                self._row += piece[: LONGEST_HEADER + 1]
        else:
            seen = len(self._row)
            self._row = row = (self._row + piece)[: _LONGEST_ROW + 1]
            self._walk.on(row, seen, self._places)
            if len(row) > _LONGEST_ROW:
                self._decide(header)
                self._header = self._previous = None
                self._open = self._read
            else:
                self._decide(header, ended=complete, complete=complete)
        if complete:
            self._end_line()

    def _end_line(self) -> None:
        row, header = self._row, self._header
        if header is not None and len(self._places) != header.delimiters and not ruled(row):
            self._header = header = self._previous = None
        if header is None:
            self._header = header = header_of(row, self._previous, self._kinds)
            if header is not None:
                self._walk = Walk(header.delimiter)
        if header is not None:
            self._walk.begin()
            self._places.clear()
            self._next = 0
        self._previous = row if len(row) <= LONGEST_HEADER else None
        self._at = self._read
        self._row = ""

    def _decide(self, header: Header, *, ended: bool = False, complete: bool = False) -> None:
        """Cells of which enough is known; all, if the line has ended, which is complete unless the text ended, too."""
        row, places, columns = self._row, self._places, header.columns
        while self._next < len(columns):
            index, column = columns[self._next]
            if index > len(places):
                return
            begin = places[index - 1] + 1 if index else 0
            closed = index < len(places)
            cell = row[begin : places[index]] if closed else row[begin:]
            value = cell.strip()
            start = begin + cell.find(value) if value else begin + len(cell)
            limit = start + _WINDOW
            if not (closed or ended):
                if not value or len(row) < limit:
                    self._open = self._at + start
                    return
            elif len(value) >= SHORTEST and (closed or index == header.delimiters):
                first, value = _bare(value)
                if begin + len(cell) < limit and counts(value, column):
                    if not ended and len(row) < limit:
                        self._open = self._at + start
                        return
                    if _fits(header, places, limit, complete and len(row) < limit):
                        first += self._at + start
                        self._found.append(Match(first, first + len(value), column.kind))
            self._next += 1


def _fits(header: Header, places: list[int], limit: int, complete: bool) -> bool:
    """Whether a line has as many delimiters as it should, as far as it is seen."""
    seen = bisect_left(places, limit)
    return seen == header.delimiters if complete else seen <= header.delimiters


def _bare(value: str) -> tuple[int, str]:
    """What stands in a cell without quotes and blanks within them, and where, from its first sign."""
    if len(value) > 1 and value[0] == value[-1] and value[0] in _QUOTES:
        inner = value[1:-1]
        value = inner.strip()
        return 1 + inner.find(value), value
    return 0, value


def cells_in(text: str, data: bytes, kinds: Collection[str]) -> list[Match]:
    """The cells of a whole text, whose UTF-8 `data` is, without what UTF-8 cannot say."""
    if not has_header(data, kinds):
        return []
    tables = Tables(kinds)
    return [*tables.feed(text), *tables.finish()]
