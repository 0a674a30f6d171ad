"""Tool calls of MiniMax M3: elements with a mark before each tag, named by the arguments, and nested as values are.

`MARK<invoke name="NAME">MARK<KEY>VALUEMARK</KEY>MARK</invoke>`; a list has `item` elements, an object those of its
keys.
"""

import json
import re
from collections.abc import Sequence as Items
from typing import Any, Final

import orjson

from gateway.text.parsing.call_machine import WAIT
from gateway.text.parsing.delta import Delta
from gateway.text.parsing.markers import ABSENT, Markers, literal
from gateway.text.parsing.offered_tools import Tool, ToolUse
from gateway.text.parsing.parser import OutputParser
from gateway.text.parsing.schema_types import types_of
from gateway.text.parsing.section_calls import STRING, SectionCalls, quoted
from gateway.text.parsing.single_arguments import ArgumentForm, single_arguments
from gateway.text.parsing.structural_tag import CallForm
from gateway.text.parsing.tool_format import ToolFormat

MARK: Final = "]<]minimax[>["
SECTION, SECTION_END = f"{MARK}<tool_call>", f"{MARK}</tool_call>"
CALL, CALL_END = f'{MARK}<invoke name="', f"{MARK}</invoke>"
_KEY: Final = re.compile(r"<([^<>/\s][^<>\n]{0,255})>")
_CUT_KEY: Final = re.compile(r"<[^<>\n]{0,256}\Z")
_TAG: Final = re.compile(rf"{re.escape(MARK)}<(/?)([^<>\n]{{1,256}})>")
#: Values that are nested deeper are text.
_DEEPEST: Final = 32
_JSON_TYPES: Final = {dict: "object", list: "array"}


class NestedElementCalls(SectionCalls):
    """Reads calls, in a section whose tags may be missing, with optional white space between the tags.

    A value is a string if the tool's schema allows nothing else; such values are streamed. Others are given whole.
    """

    __slots__ = ("_depth", "_end")

    MARKERS = Markers(SECTION, CALL)
    CALL, SECTION_END = CALL, SECTION_END

    def __init__(self, tools: Items[Tool], *, parallel: bool) -> None:
        super().__init__(tools, parallel=parallel)
        #: The end of the current argument's element (and its tag, which may come within), and the open elements of its
        #: name within it.
        self._end = Markers(CALL_END)
        self._depth = 0

    def _named(self, text: str, at: int, out: list[Delta]) -> int:
        end = self._name_text.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing at all, too
        after = literal(text, end, '">')
        if after < 0 and after != ABSENT:
            return WAIT
        tool = None if after == ABSENT else self._tools.get(text[at:end].strip())
        return after if self._begun(tool, self._argument, out) else at

    def _argument(self, text: str, at: int, out: list[Delta]) -> int:
        """Read the next argument's tag, or the call's end."""
        end = literal(text, at, CALL_END)
        if end >= 0:
            return self._ended(end, out)
        mark = literal(text, at, MARK)
        if mark == ABSENT and end == ABSENT:
            return self._ended(at, out)
        if mark < 0:
            return WAIT
        found = _KEY.match(text, mark)
        if found is None:
            return WAIT if _CUT_KEY.match(text, mark) or mark == len(text) else self._ended(at, out)
        key = found[1].strip()
        self._types = types_of(self._called.parameters if self._called else None, key)
        tag, end_tag = f"{MARK}<{found[1]}>", f"{MARK}</{found[1]}>"
        self._argue(f"{', ' if self._argued else '{'}{quoted(key)}: ", out)
        if self._types == STRING:
            self._end = Markers(end_tag)
            self._argue('"', out)
            self._exactly(self._string)
        else:
            self._end = Markers(end_tag, tag)
            self._parts, self._depth = [], 0
            self._exactly(self._value)
        return found.end()

    def _ended(self, after: int, out: list[Delta]) -> int:
        self._argue("}" if self._argued else "{}", out)
        self._open = False
        self._next(self._between)
        return after

    def _string(self, text: str, at: int, out: list[Delta]) -> int:
        return self._string_to(self._end, self._argument, text, at, out)

    def _value(self, text: str, at: int, out: list[Delta]) -> int:
        found = self._end.search(text, at)
        start = len(text) if found is None else found.start()
        if start > at:
            self._parts.append(text[at:start])
            return start
        if found is None or not self._end.is_whole(found):
            return WAIT
        closes = found.group().startswith(f"{MARK}</")
        if not closes or self._depth:
            self._depth += -1 if closes else 1
            self._parts.append(found.group())
            return found.end()
        self._argue(json.dumps(_value("".join(self._parts), self._types), ensure_ascii=False), out)
        self._parts = []
        self._next(self._argument)
        return found.end()


def _value(text: str, types: frozenset[str] | None) -> Any:
    """Convert an element's content to a value of one of the allowed types; None allows any."""
    if MARK in text:
        return _nested(text)
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    if types is None or "string" not in types:
        return value
    if isinstance(value, str) or (isinstance(value, dict | list) and _JSON_TYPES[type(value)] in types):
        return value
    if value is None:
        return None if "null" in types else text
    scalar = "boolean" if isinstance(value, bool) else "number" if isinstance(value, int | float) else ""
    return value if scalar in types or (scalar == "number" and "integer" in types) else text


def _nested(text: str) -> Any:
    """Convert elements to a list or an object; what is not well formed is text."""
    #: The open elements: their names, their children and the index after their tags.
    open_: list[tuple[str, list[tuple[str, Any]], int]] = [("", [], 0)]
    for tag in _TAG.finditer(text):
        closes, name = tag[1] == "/", tag[2]
        if not closes:
            if len(open_) > _DEEPEST:
                return text
            open_.append((name, [], tag.end()))
            continue
        own, children, start = open_.pop()
        if own != name or not open_:
            return text
        open_[-1][1].append((name, _whole(children) if children else _value(text[start : tag.start()], None)))
    return _whole(open_[0][1]) if len(open_) == 1 and open_[0][1] else text


def _whole(children: list[tuple[str, Any]]) -> Any:
    return [value for _, value in children] if all(name == "item" for name, _ in children) else dict(children)


def _new_parser(use: ToolUse) -> OutputParser:
    return NestedElementCalls(use.tools, parallel=use.parallel)


def _around(key: str, kind: str) -> tuple[str, str]:
    del kind
    return f"{key}>", f"{MARK}</{key}>"


FORMAT: Final = ToolFormat(
    marks=frozenset({MARK}),
    new_parser=_new_parser,
    triggers=(CALL,),
    forms=(
        CallForm(
            *(CALL, ('">',), "", "\n", f"{SECTION}\n", f"\n{SECTION_END}"),
            arguments=single_arguments(ArgumentForm(_around, CALL_END, f"{MARK}<")),
        ),
    ),
)
