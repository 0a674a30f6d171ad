"""Pure: the chart's values with their defaults and meanings, out of `values.yaml` and its comments."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

_KEY = re.compile(r"(?P<indent> *)(?P<key>[A-Za-z][A-Za-z0-9]*):(?: |$)")
_INDENT = 2


class Value(NamedTuple):
    """A value of the chart. `path` as in `gateway.replicas`; `meaning` is empty where no comment stands above it."""

    path: str
    default: Any
    meaning: str


def values_of(text: str) -> Iterator[Value]:
    """Yield all values of a file in their order, sections included.

    Keys that belong to a documented value of free form, as an Ingress' annotations do, are no values of their own: they
    have dots or slashes in them.
    """
    document = yaml.safe_load(text)
    place: list[str] = []
    comment: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            comment.append(stripped.removeprefix("#").strip())
            continue
        found = _KEY.match(line)
        if found is not None:
            depth = len(found["indent"]) // _INDENT
            place = [*place[:depth], found["key"]]
            yield Value(".".join(place), _at(document, place), " ".join(comment))
        comment = []


def _at(document: Any, place: list[str]) -> Any:
    for key in place:
        document = document[key]
    return document


def values_table(text: str) -> str:
    """The values as a table in Markdown; sections only where a comment stands above them."""
    rows = ["| value | default | meaning |", "| --- | --- | --- |"]
    found = list(values_of(text))
    sections = {value.path.rpartition(".")[0] for value in found}
    for value in found:
        inner = value.path in sections
        if inner and not value.meaning:
            continue
        default = "" if inner else f"`{json.dumps(value.default, ensure_ascii=False)}`"
        rows.append(f"| `{value.path}` | {default} | {_cell(value.meaning)} |")
    return "\n".join(rows) + "\n"


def _cell(meaning: str) -> str:
    return meaning.replace("|", r"\|")
