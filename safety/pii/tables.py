"""Find cells of tables in columns that hold personal data or secrets by their header.

A table is a header and the lines after it with as many delimiters; lines that are only rules are skipped. A cell of a
sensitive column is reported when it ends, or skipped if it is as long as the window.
"""

import re
from collections.abc import Collection
from typing import Final, NamedTuple

from safety.pii.columns import DELIMITERS, KINDS_OF_CELLS, LONGEST_HEADER, Header, counts, header_of, is_ruled
from safety.pii.text_window import WINDOW

#: A longer line ends a table.
_LONGEST_ROW: Final = 4096
#: The end of a line that introduces the next one, and is not part of a table.
_LEADING: Final = (":", ".", "!", "?", "：", "。")
_CELLS: Final = {
    delimiter: re.compile(rf"[ \t]*(?:\"[^\"]*(?:\"|\Z))?[^{delimiter}]*" if delimiter != "\t" else r"[^\t]*")
    for delimiter in DELIMITERS
}


class Cell(NamedTuple):
    """A cell of a sensitive column, in characters of the text."""

    start: int
    end: int
    kind: str


class Tables:
    """Parse the tables of one streamed or whole text."""

    def __init__(self, kinds: Collection[str]) -> None:
        self._kinds = KINDS_OF_CELLS.intersection(kinds)
        self._header: Header | None = None
        # The line before this one; empty if it is not part of a table.
        self._before = ""
        # This line and its offset; in a table the index of its next cell and the cell's start in the line.
        self._row = ""
        self._at = self._read = 0
        self._cell = self._next = 0
        #: The first undecided character of the text.
        self.open = 0

    @property
    def inside(self) -> bool:
        """Whether the next text may be in a cell."""
        return self._header is not None

    def feed(self, text: str, *, ended: bool = False) -> list[Cell]:
        """Parse the next piece, the last one if `ended`; return the cells that are certain now."""
        cells: list[Cell] = []
        *complete, rest = text.split("\n")
        for line in complete:
            self._extend_line(line, cells, ended=True)
            self._end_line()
        self._extend_line(rest, cells, ended=ended)
        return cells

    def _extend_line(self, piece: str, cells: list[Cell], *, ended: bool) -> None:
        """Add text to the current line; `ended`: the line is complete."""
        self._read += len(piece)
        self.open = self._read
        if len(self._row) <= _LONGEST_ROW:
            self._row += piece[: _LONGEST_ROW + 1]
        if len(self._row) > _LONGEST_ROW:
            self._header = None
        if self._header is not None:
            self._read_cells(self._header, cells, ended=ended)

    def _read_cells(self, header: Header, cells: list[Cell], *, ended: bool) -> None:
        row = self._row
        while self._cell <= header.delimiters:
            end = _cell_end(header.delimiter, row, self._next)
            closed = end < len(row)
            value = row[self._next : end].strip()
            start = row.find(value, self._next) if value else end
            column = header.columns.get(self._cell)
            if column is not None and (closed or ended) and closed == (self._cell < header.delimiters):
                first, value = _bare(value)
                if end - start < WINDOW and counts(value, column):
                    first += self._at + start
                    cells.append(Cell(first, first + len(value), column.kind))
            elif column is not None and value and not (closed or ended) and len(row) - start < WINDOW:
                self.open = self._at + start
            if not closed:
                self._cell += ended
                return
            self._cell += 1
            self._next = end + 1

    def _end_line(self) -> None:
        row, header = self._row, self._header
        if header is not None and _delimiters(header.delimiter, row) != header.delimiters and not is_ruled(row):
            self._header = header = None
            self._before = ""
        if header is None and self._kinds:
            self._header = header_of(row, self._kinds)
            if self._header is not None and self._continues(row, self._header.delimiter):
                self._header = None
        self._before = row if len(row) <= LONGEST_HEADER else ""
        self._row = ""
        self._cell = self._next = 0
        self._read += 1
        self._at = self.open = self._read

    def _continues(self, row: str, delimiter: str) -> bool:
        """Whether the line before has as many cells: then a line continues it and is not a header."""
        before = self._before
        if not before or before.count(delimiter) != row.count(delimiter):
            return False
        return not before.rstrip().endswith(_LEADING) and not is_ruled(before)


def _cell_end(delimiter: str, row: str, start: int) -> int:
    found = _CELLS[delimiter].match(row, start)
    return start if found is None else found.end()


def _delimiters(delimiter: str, row: str) -> int:
    count, end = 0, _cell_end(delimiter, row, 0)
    while end < len(row):
        count, end = count + 1, _cell_end(delimiter, row, end + 1)
    return count


def _bare(value: str) -> tuple[int, str]:
    """Return the offset and text of a cell's value without quotes and the spaces inside them."""
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'`":
        inner = value[1:-1].strip()
        return value.index(inner), inner
    return 0, value
