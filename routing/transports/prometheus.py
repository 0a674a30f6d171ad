"""Parses Prometheus' text format, as engines write their metrics; lines that are no samples are skipped."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

#: A metric's name, its labels, and its value, which may be infinite or NaN.
Sample = tuple[str, Mapping[str, str], float]

_NAME: Final = re.compile(r"[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*")
_LABEL: Final = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|(?=\}))')
_END_OF_LABELS: Final = re.compile(r"[ \t]*\}")
#: A value, an optional timestamp, and an optional exemplar after `#`.
_VALUE: Final = re.compile(r"[ \t]*([^\s#_]+)(?:[ \t]+[-+.0-9eE]+)?[ \t\r]*(?:#.*)?$")
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPED: Final = {"n": "\n", "\\": "\\", '"': '"'}
_NO_LABELS: Final[Mapping[str, str]] = {}


def samples(text: str) -> Iterator[Sample]:
    """Yield every sample of the text in order. Comments and invalid lines are skipped; raises nothing."""
    for line in text.split("\n"):
        sample = _sample(line)
        if sample is not None:
            yield sample


def _sample(line: str) -> Sample | None:
    name = _NAME.match(line)
    if name is None:
        return None
    at, labels = name.end(), _NO_LABELS
    if line[at : at + 1] == "{":
        found: dict[str, str] = {}
        at += 1
        while label := _LABEL.match(line, at):
            found[label[1]] = _ESCAPE.sub(_unescaped, label[2]) if "\\" in label[2] else label[2]
            at = label.end()
        end = _END_OF_LABELS.match(line, at)
        if end is None:
            return None
        at, labels = end.end(), found
    elif not line[:at].endswith((" ", "\t")):
        return None
    value = _VALUE.match(line, at)
    try:
        return None if value is None else (name[1], labels, float(value[1]))
    except ValueError:
        return None


def _unescaped(match: re.Match[str]) -> str:
    return _ESCAPED.get(match[1], match[0])
