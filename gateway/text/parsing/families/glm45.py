"""Tool calls of GLM 4.5, with tagged arguments."""

import json
import re
from collections.abc import Sequence as Items
from typing import Any, Final

import orjson

from gateway.text.parsing.call_machine import WAIT, CallMachine
from gateway.text.parsing.delta import Delta
from gateway.text.parsing.markers import ABSENT, UNKNOWN, Markers, literal
from gateway.text.parsing.offered_tools import Tool, ToolUse
from gateway.text.parsing.parser import OutputParser
from gateway.text.parsing.schema_types import types_of
from gateway.text.parsing.tool_format import ToolFormat

OPEN, CLOSE = "<tool_call>", "</tool_call>"
KEY, KEY_CLOSE = "<arg_key>", "</arg_key>"
VALUE, VALUE_CLOSE = "<arg_value>", "</arg_value>"
_KEY_END: Final = Markers(KEY_CLOSE)
_VALUE_END: Final = Markers(VALUE_CLOSE)
_STRING: Final = frozenset({"string"})
_JSON_TYPES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}


class Glm45Calls(CallMachine):
    """`<tool_call>NAME`, then `<arg_key>` and `<arg_value>` pairs, `</tool_call>`, with optional white space between.

    A value is a string if the tool's schema allows no other type; such values are streamed. Other values are given
    whole: as JSON, or as strings if they are no JSON or of a type that the schema does not allow.
    """

    __slots__ = ("_called", "_key", "_name_text", "_parts", "_tools", "_types")

    MARKERS = Markers(OPEN)

    def __init__(self, tools: Items[Tool], *, parallel: bool) -> None:
        super().__init__([tool.name for tool in tools], parallel=parallel)
        self._tools = {tool.name: tool for tool in tools}
        # Longer than all names, to allow for white space around them.
        self._name_text = re.compile(rf"[^\n<]{{0,{max(map(len, self._names), default=0) + 16}}}+")
        self._called: Tool | None = None
        #: The current argument: its key, its allowed types, and the text of either so far.
        self._key = ""
        self._types: frozenset[str] | None = None
        self._parts: list[str] = []

    def _flowing(self) -> Delta | None:
        return self._arguing() if self._state == self._string else super()._flowing()

    def _opened(self, marker: str) -> None:
        self._next(self._named)

    def _named(self, text: str, at: int, out: list[Delta]) -> int:
        end = self._name_text.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing at all, too
        if end == len(text):
            return WAIT
        self._called = self._tools.get(text[at:end].strip()) if text[end] in "\n<" else None
        if self._called is None:
            self._reject(out)
            return at
        self._start(self._called.name, out)
        self._next(self._pair)
        return end

    def _pair(self, text: str, at: int, out: list[Delta]) -> int:
        """Read the next argument, or the call's end."""
        after = literal(text, at, KEY)
        if after == ABSENT:
            after = literal(text, at, CLOSE)
            if after != UNKNOWN:
                return self._closed(after, at, out)
        if after < 0:
            return WAIT
        self._exactly(self._keyed)
        return after

    def _closed(self, after: int, at: int, out: list[Delta]) -> int:
        self._argue("}" if self._argued else "{}", out)
        self._open = False
        self._next(self._space)
        return at if after == ABSENT else after

    def _gathered(self, ends: Markers, text: str, at: int) -> int:
        """Add the text before a marker to `_parts`; returns the index after the marker, or where reading goes on."""
        found = ends.search(text, at)
        start = len(text) if found is None else found.start()
        if start > at:
            self._parts.append(text[at:start])
        return start

    def _keyed(self, text: str, at: int, out: list[Delta]) -> int:
        found = _KEY_END.match(text, at)
        if found is None:
            return self._gathered(_KEY_END, text, at)
        if not _KEY_END.is_whole(found):
            return WAIT
        self._key = "".join(self._parts).strip()
        self._parts = []
        self._types = types_of(self._called.parameters if self._called else None, self._key)
        self._next(self._valued)
        return found.end()

    def _valued(self, text: str, at: int, out: list[Delta]) -> int:
        after = literal(text, at, VALUE)
        if after == UNKNOWN:
            return WAIT
        if after == ABSENT:
            return self._closed(ABSENT, at, out)
        before = f"{', ' if self._argued else '{'}{_quoted(self._key)}: "
        if self._types == _STRING:
            self._argue(f'{before}"', out)
            self._exactly(self._string)
        else:
            self._parts = []
            self._key = before
            self._exactly(self._json)
        return after

    def _string(self, text: str, at: int, out: list[Delta]) -> int:
        found = _VALUE_END.search(text, at)
        start = len(text) if found is None else found.start()
        if start > at:
            self._argue(_quoted(text[at:start])[1:-1], out)
            return start
        if found is None or not _VALUE_END.is_whole(found):
            return WAIT
        self._argue('"', out)
        self._next(self._pair)
        return found.end()

    def _json(self, text: str, at: int, out: list[Delta]) -> int:
        found = _VALUE_END.match(text, at)
        if found is None:
            return self._gathered(_VALUE_END, text, at)
        if not _VALUE_END.is_whole(found):
            return WAIT
        self._argue(self._key + _value("".join(self._parts), self._types), out)
        self._parts = []
        self._next(self._pair)
        return found.end()


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _value(text: str, types: frozenset[str] | None) -> str:
    """Convert a value to JSON of one of the allowed types; None allows any."""
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        return _quoted(text)
    found = "null" if value is None else _JSON_TYPES[type(value)]
    if types is None or "string" not in types or found in types or (found == "integer" and "number" in types):
        return text.strip()
    return _quoted(text)


def _new_parser(use: ToolUse) -> OutputParser:
    return Glm45Calls(use.tools, parallel=use.parallel)


FORMAT = ToolFormat(marks=frozenset({OPEN, CLOSE, KEY, KEY_CLOSE, VALUE, VALUE_CLOSE}), new_parser=_new_parser)
