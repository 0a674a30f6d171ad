"""Print the output of commands: tables for people, JSON for programs, one line for a failure."""

import sys
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


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    print("\n".join(table([header, *rows])))


def print_fields(fields: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one pair a line; those without a value are left out."""
    width = max(len(name) for name, _ in fields) + 2
    for name, value in fields:
        if value:
            print(f"{name:<{width}}{value}")


def fail(command: str, problem: str) -> int:
    """Print one line that says what is wrong, and return the exit status."""
    print(f"penstock {command}: {problem}", file=sys.stderr)
    return 1
