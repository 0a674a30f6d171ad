"""Print the output of commands: tables for people, JSON for programs, one line for a failure."""

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence

import msgspec


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    print(msgspec.json.format(msgspec.json.encode(value)).decode())


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Format rows, the header first, as lines in columns that are as wide as they need to be."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def fitted(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Format rows as `table` does where that fits; else each of them as a block, with a line for each column."""
    lines = list(table(rows))
    if max(map(len, lines)) <= width:
        yield from lines
        return
    header, *others = rows
    for number, row in enumerate(others):
        if number:
            yield ""
        yield from _fields(list(zip(header, row, strict=True)))


def wrapped(text: str, width: int, first: str = "  ", rest: str = "    ") -> list[str]:
    """Break a text into lines, of which the first and the others are indented; paths and names stay whole."""
    return textwrap.wrap(text, max(width, 40), initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, or blocks on a terminal that is too narrow for it."""
    width = shutil.get_terminal_size((sys.maxsize, 0)).columns
    print("\n".join(fitted([header, *rows], width)))


def print_fields(fields: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one pair a line; those without a value are left out."""
    for line in _fields(fields):
        print(line)


def _fields(fields: Sequence[tuple[str, str]]) -> Iterator[str]:
    width = max(len(name) for name, _ in fields) + 2
    return (f"{name:<{width}}{value}" for name, value in fields if value)


def fail(command: str, problem: str) -> int:
    """Print one line that says what is wrong, and return the exit status."""
    note(command, problem)
    return 1


def note(command: str, words: str) -> None:
    """Print one line of a command that goes on to stderr."""
    print(f"penstock {command}: {words}", file=sys.stderr)
