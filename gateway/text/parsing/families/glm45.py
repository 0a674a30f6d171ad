"""Tool calls of GLM 4.5, with tagged arguments, and of others with other tags (Hy3)."""

import re
from collections.abc import Sequence as Items
from typing import Any, Final, NamedTuple

import orjson

from gateway.text.parsing.call_machine import WAIT
from gateway.text.parsing.delta import Delta
from gateway.text.parsing.families.round_trip import SAMPLE_NAME
from gateway.text.parsing.markers import ABSENT, UNKNOWN, Markers, literal
from gateway.text.parsing.offered_tools import Tool, ToolUse
from gateway.text.parsing.parser import OutputParser
from gateway.text.parsing.schema_types import types_of
from gateway.text.parsing.section_calls import STRING, SectionCalls, quoted
from gateway.text.parsing.single_arguments import ArgumentForm, single_arguments
from gateway.text.parsing.structural_tag import CallForm
from gateway.text.parsing.tool_format import ToolFormat

OPEN, CLOSE = "<tool_call>", "</tool_call>"
KEY, KEY_CLOSE = "<arg_key>", "</arg_key>"
VALUE, VALUE_CLOSE = "<arg_value>", "</arg_value>"
_JSON_TYPES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}


class PairForm(NamedTuple):
    """The tags of a family. `section` and `section_end` are around the calls, `separator` after a name; or empty."""

    section: str
    section_end: str
    call: str
    call_end: str
    separator: str
    key: str
    key_end: str
    value: str
    value_end: str


class PairCalls(SectionCalls):
    """Reads calls of a `FORM`: a name, then pairs of tagged keys and values, with optional white space between.

    A section's tags may be missing. A value is a string if the tool's schema allows no other type; such values are
    streamed. Other values are given whole: as JSON, or as strings if they are no JSON or of a type that the schema does
    not allow.
    """

    __slots__ = ("_key",)

    AFTER_NAMES = r"\n<"

    FORM: PairForm
    KEY_END: Markers
    VALUE_END: Markers

    def __init__(self, tools: Items[Tool], *, parallel: bool) -> None:
        super().__init__(tools, parallel=parallel)
        #: The current argument's key, or what comes before its value.
        self._key = ""

    def _named(self, text: str, at: int, out: list[Delta]) -> int:
        end = self._name_text.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing at all, too
        if end == len(text):
            return WAIT
        after = literal(text, end, self.FORM.separator) if self.FORM.separator else end
        if after == UNKNOWN:
            return WAIT
        tool = self._tools.get(text[at:end].strip()) if text[end] in "\n<" and after != ABSENT else None
        return after if self._begun(tool, self._pair, out) else at

    def _pair(self, text: str, at: int, out: list[Delta]) -> int:
        """Read the next argument, or the call's end."""
        after = literal(text, at, self.FORM.key)
        if after == ABSENT:
            after = literal(text, at, self.FORM.call_end)
            if after != UNKNOWN:
                return self._closed(after, at, out)
        if after < 0:
            return WAIT
        self._exactly(self._keyed)
        return after

    def _closed(self, after: int, at: int, out: list[Delta]) -> int:
        self._argue("}" if self._argued else "{}", out)
        self._open = False
        self._next(self._between if self.FORM.section else self._space)
        return at if after == ABSENT else after

    def _gathered(self, ends: Markers, text: str, at: int) -> int:
        """Add the text before a marker to `_parts`; returns the index after the marker, or where reading goes on."""
        found = ends.search(text, at)
        start = len(text) if found is None else found.start()
        if start > at:
            self._parts.append(text[at:start])
        return start

    def _keyed(self, text: str, at: int, out: list[Delta]) -> int:
        found = self.KEY_END.match(text, at)
        if found is None:
            return self._gathered(self.KEY_END, text, at)
        if not self.KEY_END.is_whole(found):
            return WAIT
        self._key = "".join(self._parts).strip()
        self._parts = []
        self._types = types_of(self._called.parameters if self._called else None, self._key)
        self._next(self._valued)
        return found.end()

    def _valued(self, text: str, at: int, out: list[Delta]) -> int:
        after = literal(text, at, self.FORM.value)
        if after == UNKNOWN:
            return WAIT
        if after == ABSENT:
            return self._closed(ABSENT, at, out)
        before = f"{', ' if self._argued else '{'}{quoted(self._key)}: "
        if self._types == STRING:
            self._argue(f'{before}"', out)
            self._exactly(self._string)
        else:
            self._parts = []
            self._key = before
            self._exactly(self._json)
        return after

    def _string(self, text: str, at: int, out: list[Delta]) -> int:
        return self._string_to(self.VALUE_END, self._pair, text, at, out)

    def _json(self, text: str, at: int, out: list[Delta]) -> int:
        found = self.VALUE_END.match(text, at)
        if found is None:
            return self._gathered(self.VALUE_END, text, at)
        if not self.VALUE_END.is_whole(found):
            return WAIT
        self._argue(self._key + _value("".join(self._parts), self._types), out)
        self._parts = []
        self._next(self._pair)
        return found.end()


def _value(text: str, types: frozenset[str] | None) -> str:
    """Convert a value to JSON of one of the allowed types; None allows any."""
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        return quoted(text)
    found = "null" if value is None else _JSON_TYPES[type(value)]
    if types is None or "string" not in types or found in types or (found == "integer" and "number" in types):
        return text.strip()
    return quoted(text)


def format_of(form: PairForm) -> ToolFormat:
    """Make the format of calls with these tags."""
    members = {
        "__slots__": (),
        "FORM": form,
        "CALL": form.call,
        "SECTION_END": form.section_end,
        "MARKERS": Markers(*filter(None, (form.section, form.call))),
        "KEY_END": Markers(form.key_end),
        "VALUE_END": Markers(form.value_end),
    }
    kind: type[PairCalls] = type("FormedPairCalls", (PairCalls,), members)

    def new_parser(use: ToolUse) -> OutputParser:
        return kind(use.tools, parallel=use.parallel)

    def around(key: str, kind: str) -> tuple[str, str]:
        del kind
        return f"{key}{form.key_end}\n{form.value}", f"{form.value_end}\n"

    calls = CallForm(
        *(form.call, (f"{form.separator}\n",), "", "\n"),
        begin=form.section and f"{form.section}\n",
        end=form.section_end and f"\n{form.section_end}",
        arguments=single_arguments(ArgumentForm(around, form.call_end, form.key)),
    )
    return ToolFormat(frozenset(filter(None, form)), new_parser, (form.call,), (calls,))


FORMAT: Final = format_of(PairForm("", "", OPEN, CLOSE, "", KEY, KEY_CLOSE, VALUE, VALUE_CLOSE))
#: The tags around a sample call, as templates write them.
_SAMPLE: Final = re.compile(
    rf"""(?:(?P<section><[^<>\s/]+>)\s*)?
    (?P<call><[^<>\s/]+>)\s*{SAMPLE_NAME}(?P<separator>(?:<[^<>\s/]+>)??)\s*
    (?P<key><[^<>\s/]+>)\w+(?P<key_end></[^<>\s]+>)\s*
    (?P<value><[^<>\s/]+>)[^<>]*(?P<value_end></[^<>\s]+>)
    .*(?P=value_end)\s*(?P<call_end></[^<>\s]+>)
    (?:\s*(?P<section_end></[^<>\s]+>))?""",
    re.VERBOSE | re.DOTALL,
)


def learned_pairs(written: str) -> ToolFormat | None:
    """Learn the tags from what a template writes for a sample call of two arguments; None: they are none."""
    found = _SAMPLE.search(written)
    if found is None:
        return None
    tags = {name: found[name] or "" for name in PairForm._fields}
    if not (tags["section"] and tags["section_end"]):
        tags["section"] = tags["section_end"] = ""
    return format_of(PairForm(**tags))
