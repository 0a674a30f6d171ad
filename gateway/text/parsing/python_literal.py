"""Conversion of Python literals, as models write them in calls, to JSON text."""

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final

_DEEPEST: Final = 64
_LONGEST_NUMBER: Final = 64

_TOKEN: Final = re.compile(
    r"""\s*+(?:
        (?P<string>'[^'\\]*+(?:\\.[^'\\]*+)*+' | "[^"\\]*+(?:\\.[^"\\]*+)*+")
      | (?P<number>[-+]?(?:\d[\d_]*+(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?)
      | (?P<word>[A-Za-z_]\w*+)
      | (?P<mark>[\[\](){},:])
    )\s*+""",
    re.VERBOSE | re.DOTALL,
)
_WORDS: Final = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}
_CLOSING: Final = {"[": "]", "(": ")", "{": "}"}
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|(.))", re.DOTALL)
_ESCAPED: Final = {
    "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a",
    "\\": "\\", "'": "'", '"': '"', "/": "/", "\n": "",
}  # fmt: skip


class _NotALiteral(Exception):
    """The text is not a literal."""


def json_of(text: str) -> str:
    """Convert a literal to JSON. Other text is taken for an unquoted string, which some models write. Linear time."""
    try:
        value, end = _value(text, 0, _DEEPEST)
        if end < len(text):
            raise _NotALiteral
    except _NotALiteral:
        value = text.strip()
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _value(text: str, at: int, deepest: int) -> tuple[Any, int]:
    found = _TOKEN.match(text, at)
    if found is None or not deepest:
        raise _NotALiteral
    token, end = found[found.lastgroup or 0], found.end()
    if found.lastgroup == "string":
        return _string(token), end
    if found.lastgroup == "number":
        return _number(token), end
    if token in _WORDS:
        return _WORDS[token], end
    if token == "{":
        return _dict(text, end, deepest - 1)
    if token in _CLOSING:
        return _list(text, end, deepest - 1, _CLOSING[token])
    raise _NotALiteral


def _items(text: str, at: int, closing: str, item: Callable[[int], int]) -> int:
    """Read items separated by commas, with an optional trailing comma; returns the index after the closing bracket."""
    while True:
        if text.startswith(closing, at):
            return _past(text, at, closing)
        at = item(at)
        if not text.startswith(closing, at):
            at = _past(text, at, ",")


def _past(text: str, at: int, mark: str) -> int:
    found = _TOKEN.match(text, at)
    if found is None or found["mark"] != mark:
        raise _NotALiteral
    return found.end()


def _list(text: str, at: int, deepest: int, closing: str) -> tuple[list[Any], int]:
    values: list[Any] = []

    def item(at: int) -> int:
        value, at = _value(text, at, deepest)
        values.append(value)
        return at

    return values, _items(text, at, closing, item)


def _dict(text: str, at: int, deepest: int) -> tuple[dict[str, Any], int]:
    values: dict[str, Any] = {}

    def item(at: int) -> int:
        key, at = _value(text, at, deepest)
        value, at = _value(text, _past(text, at, ":"), deepest)
        if isinstance(key, list | dict):
            raise _NotALiteral
        values[key if isinstance(key, str) else json.dumps(key)] = value
        return at

    return values, _items(text, at, "}", item)


def _number(token: str) -> int | float:
    if len(token) > _LONGEST_NUMBER:
        raise _NotALiteral
    if token.lstrip("+-").replace("_", "").isdecimal():
        return int(token.replace("_", ""))
    try:
        value = float(token)
    except ValueError:
        raise _NotALiteral from None
    if not math.isfinite(value):
        raise _NotALiteral
    return value


def _string(token: str) -> str:
    text = token[1:-1]
    if "\\" not in text:
        return text
    text = _ESCAPE.sub(_character, text)
    # Surrogate pairs, as JSON writes characters beyond the first plane, are joined; lone surrogates are invalid.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(found: re.Match[str]) -> str:
    if found[5] is not None:
        return _ESCAPED.get(found[5], found[0])
    code = int(found[4], 8) if found[4] is not None else int(found[1] or found[2] or found[3], 16)
    return chr(code) if code < 0x110000 else "\ufffd"
