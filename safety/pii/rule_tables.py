r"""Read the tables of patterns beside this file.

A line is a rule: fields separated by tabs, the last of which may be missing. A line that begins with a tab is an
example of the rule above it: `+` and a text whose one match of the rule's kind is marked, as in `call «555-0100»`,
or `-` and a text without a match of this kind. `#` begins a comment. In examples `\uXXXX` is a character, so that
scanners for keys in source code find none in them.
"""

import json
import re
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

#: The tables whose rules have examples.
WITH_EXAMPLES: Final = ("tokens.txt", "values.txt", "codes.txt", "numbers.txt", "phones.txt")


class Example(NamedTuple):
    """A text, and the span of it that must match; None if nothing must."""

    text: str
    found: tuple[int, int] | None


class Row(NamedTuple):
    """A rule's fields and its examples."""

    fields: tuple[str, ...]
    examples: tuple[Example, ...]


@cache
def lines(table: str) -> list[tuple[str, ...]]:
    """Return the fields of each rule of a table, in order."""
    return [tuple(line.split("\t")) for line in _read(table) if line[0] != "\t"]


def rows(table: str) -> list[Row]:
    """Return the rules of a table with their examples, in order."""
    every: list[tuple[tuple[str, ...], list[Example]]] = []
    for line in _read(table):
        if line[0] == "\t":
            every[-1][1].append(_example(line[1:]))
        else:
            every.append((tuple(line.split("\t")), []))
    return [Row(fields, tuple(examples)) for fields, examples in every]


@cache
def words(name: str) -> str:
    """Return an expression of `words.txt` by name, with each `{other}` in it replaced by that expression."""
    found = {fields[0]: fields[1] for fields in lines("words.txt")}[name]
    return _NAMED.sub(lambda other: f"(?:{words(other[1])})", found)


def expanded(expression: str) -> str:
    """Replace each `{name}` in an expression by that of `words.txt`."""
    return _NAMED.sub(lambda name: f"(?:{words(name[1])})", expression)


def _read(table: str) -> list[str]:
    text = files("safety.pii").joinpath(table).read_text(encoding="utf-8")
    return [line for line in text.split("\n") if line.strip() and not line.startswith("#")]


def _example(line: str) -> Example:
    marked = _ESCAPED.sub(lambda found: str(json.loads(f'"{found[0]}"')), line[2:])
    before, mark, rest = marked.partition("«")
    value, _, after = rest.partition("»")
    text = before + value + after
    return Example(text, (len(before), len(before) + len(value)) if mark else None)


_NAMED: Final = re.compile(r"\{([a-z][a-z_0-9]+)\}")
_ESCAPED: Final = re.compile(r"(?:\\u[0-9a-f]{4})+")
