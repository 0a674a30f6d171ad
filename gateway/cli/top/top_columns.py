"""Fit rows into a width: numbers stand whole or not at all, names keep both their ends, columns leave in an order."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from gateway.cli.top.top_rows import Row
from observability.printable import printable

GAP: Final = 2
_MORE: Final = "…"


class Column(NamedTuple):
    """One column of a table.

    `rank` says when it leaves where there is no room for all: those of rank 1 first, and of rank 0 never. `least` is
    how many cells of the terminal are enough for it; without it, it is not cut. `right`: to the right, as numbers are.
    `ends`: what is cut of it is the middle, as names are told apart by their ends too.
    """

    title: str
    rank: int = 0
    least: int | None = None
    right: bool = False
    ends: bool = False


def figure(title: str, rank: int) -> Column:
    """A column of numbers: the first digits of one are another number."""
    return Column(title, rank, right=True)


def name(title: str, rank: int = 0) -> Column:
    """A column of names."""
    return Column(title, rank, least=12, ends=True)


def columns_table(columns: Sequence[Column], rows: Sequence[Row], left_out: int, width: int) -> Table:
    """Make the table of rows, which have a cell for each column, in `width` cells of a terminal.

    The first title says how many rows are `left_out`.
    """
    titles = [column.title for column in columns]
    titles[0] += f" +{left_out}" if left_out else ""
    texts = [[printable(text) for text, _ in row] for row in rows]
    natural = [max(map(cell_len, column)) for column in zip(titles, *texts, strict=True)]
    widths = fitting(columns, natural, [cell_len(title) for title in titles], width)
    table = Table.grid(padding=(0, GAP, 0, 0))
    for place, wide in widths.items():
        table.add_column(width=wide, justify="right" if columns[place].right else "left", no_wrap=True)
    styled = [[(title, "dim") for title in titles], *rows]
    for row, words in zip(styled, [titles, *texts], strict=True):
        cells = (cut(words[place], wide, ends=columns[place].ends) for place, wide in widths.items())
        table.add_row(*(Text(cell, row[place][1]) for cell, place in zip(cells, widths, strict=True)))
    return table


def fitting(columns: Sequence[Column], natural: Sequence[int], titles: Sequence[int], width: int) -> dict[int, int]:
    """Give the places of the columns that are shown, with their widths.

    `natural` are the widths of their longest cells, titles included, and `titles` those of the titles alone.
    """
    least = [
        full if column.least is None else min(full, max(column.least, title))
        for column, full, title in zip(columns, natural, titles, strict=True)
    ]
    shown = list(range(len(columns)))
    leaving = sorted((place for place in shown if columns[place].rank), key=lambda place: columns[place].rank)
    while leaving and _taken(least, shown) > width:
        shown.remove(leaving.pop(0))
    widths = {place: least[place] for place in shown}
    free = width - _taken(least, shown)
    while free > 0 and (growing := [place for place in shown if widths[place] < natural[place]]):
        for place in growing[:free]:
            widths[place] += 1
            free -= 1
    return widths


def cut(text: str, width: int, *, ends: bool) -> str:
    """Shorten what is wider: it loses its end, or where both `ends` count its middle."""
    if cell_len(text) <= width:
        return text
    end = _within(text[::-1], (width - 1) // 2)[::-1] if ends else ""
    return f"{_within(text, width - 1 - cell_len(end))}{_MORE}{end}"


def _within(text: str, width: int) -> str:
    """The longest beginning of a text that is no wider."""
    for length in range(min(len(text), width), -1, -1):
        if cell_len(text[:length]) <= width:
            return text[:length]
    return ""


def _taken(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[place] for place in shown) + GAP * (len(shown) - 1)
