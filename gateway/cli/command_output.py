"""What commands print: tables and descriptions for people, JSON for programs."""

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from gateway.config.tenants import Limits


def print_json(value: object) -> None:
    """Print a value, indented."""
    print(msgspec.json.format(msgspec.json.encode(value)).decode())


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows, the header first, as lines in columns that are as wide as they need to be."""
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
    """Say in one line what is wrong, and give the exit status."""
    print(f"penstock {command}: {problem}", file=sys.stderr)
    return 1


def shown_time(seconds: float) -> str:
    """A time since 1970 in UTC, to the minute."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def shown_limits(limits: Limits) -> str:
    """The limits that are set, in a line; empty where none is."""
    parts = [
        f"{name} {value}"
        for name in limits.__struct_fields__
        if name != "budget" and (value := getattr(limits, name)) is not None
    ]
    if limits.budget is not None:
        parts.append(f"budget {limits.budget.usd:g} USD/{limits.budget.period}")
    return ", ".join(parts)
