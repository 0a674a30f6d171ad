"""Scanners for the end of a JSON or Python value in text that arrives in pieces."""

import re
from typing import Final

# A string's content; a backslash at the end of the piece is left out.
_STRINGS: Final = {
    '"': re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL),
    "'": re.compile(r"[^'\\]*+(?:\\.[^'\\]*+)*+", re.DOTALL),
}
# Outside of strings: a quote, runs of brackets, and what never occurs there in JSON, so that an unclosed value ends
# at the marker after it.
_JSON: Final = re.compile(r'["<]|[{\[]++|[}\]]++')
_PYTHON: Final = re.compile(r"""["',]|[{\[(]++|[}\])]++""")
_SCALAR_END: Final = re.compile(r"[\s,}\]<]")


class ValueScan:
    """Tracks strings and brackets only: the value may be invalid within. Linear time."""

    __slots__ = ("_depth", "_escaped", "_quote")

    def __init__(self) -> None:
        self._depth = 0
        self._quote = ""
        self._escaped = False

    def _end_of_string(self, text: str, at: int) -> int:
        """The index after the string's end; -1: it continues."""
        if self._escaped:
            at += 1
            self._escaped = False
        found = _STRINGS[self._quote].match(text, at)
        assert found is not None, "the pattern matches nothing at all, too"
        at = found.end()
        if at == len(text):
            return -1
        if text[at] == "\\":
            self._escaped = True
            return -1
        self._quote = ""
        return at + 1


class JsonScan(ValueScan):
    """Finds the end of a JSON value, from its first character on."""

    __slots__ = ("_scalar",)

    def __init__(self, first: str) -> None:
        super().__init__()
        self._scalar = first not in '{["'

    def is_within(self) -> bool:
        """Whether a text without quotes, backslashes, brackets and starts of markers is a part of the value."""
        return not self._escaped if self._quote else self._depth > 0

    def end(self, text: str, at: int) -> int:
        """The index after the value in `text`, whose part from `at` on is the next piece; -1: the value continues."""
        if self._scalar:
            found = _SCALAR_END.search(text, at)
            return -1 if found is None else found.start()
        while True:
            if self._quote:
                at = self._end_of_string(text, at)
                if at < 0 or not self._depth:
                    return at
            found = _JSON.search(text, at)
            if found is None:
                return -1
            at = found.end()
            mark, length = text[found.start()], at - found.start()
            if mark == '"':
                self._quote = mark
            elif mark in "{[":
                self._depth += length
            elif mark == "<":
                return found.start()
            elif length < self._depth:
                self._depth -= length
            else:
                return found.start() + self._depth


class PythonScan(ValueScan):
    """Finds the end of an argument's value in a Python call."""

    __slots__ = ()

    def end(self, text: str, at: int) -> int:
        """The index of the comma or bracket after the value; -1: it continues. See `JsonScan`."""
        while True:
            if self._quote:
                at = self._end_of_string(text, at)
                if at < 0:
                    return -1
            found = _PYTHON.search(text, at)
            if found is None:
                return -1
            at = found.end()
            mark, length = text[found.start()], at - found.start()
            if mark in _STRINGS:
                self._quote = mark
            elif mark in "{[(":
                self._depth += length
            elif mark == ",":
                if not self._depth:
                    return found.start()
            elif length <= self._depth:
                self._depth -= length
            else:
                return found.start() + self._depth
