"""Prometheus' text format, as engines write their metrics; what is no sample is passed over."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

#: A metric's name, its labels, and its value, which may be infinite or no number.
Sample = tuple[str, Mapping[str, str], float]

_NAME: Final = re.compile(r"[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*")
_LABEL: Final = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|(?=\}))')
_END_OF_LABELS: Final = re.compile(r"[ \t]*\}")
#: A value, maybe a time, maybe an exemplar behind `#`.
_VALUE: Final = re.compile(r"[ \t]*([^\s#_]+)(?:[ \t]+[-+.0-9eE]+)?[ \t\r]*(?:#.*)?$")
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPED: Final = {"n": "\n", "\\": "\\", '"': '"'}
_NO_LABELS: Final[Mapping[str, str]] = {}


def samples(text: str) -> Iterator[Sample]:
    """Every sample in the text, in its order. Comments and lines that are no samples are left out; raises nothing."""
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
