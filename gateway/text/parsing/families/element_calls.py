"""Tool calls as XML-like elements: one for the call, one for each argument.

`<function=NAME><parameter=KEY>VALUE</parameter></function>` is what Qwen3-Coder and Qwen 3.5, Nemotron 3, StepFun and
Seed-OSS write; `<invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>` MiniMax M2, and DeepSeek V3.2
with a mark of its own in each tag and an attribute `string`. Most put a section around the calls.
"""

import re
from collections.abc import Sequence as Items
from typing import Any, Final, NamedTuple

import orjson

from gateway.text.parsing.call_machine import WAIT
from gateway.text.parsing.delta import Delta
from gateway.text.parsing.markers import ABSENT, Markers, literal
from gateway.text.parsing.offered_tools import Tool, ToolUse
from gateway.text.parsing.parser import OutputParser
from gateway.text.parsing.python_literal import json_of
from gateway.text.parsing.schema_types import types_of
from gateway.text.parsing.section_calls import STRING, SectionCalls, quoted
from gateway.text.parsing.single_arguments import ArgumentForm, single_arguments
from gateway.text.parsing.structural_tag import CallForm
from gateway.text.parsing.tool_format import ToolFormat

#: Bound on the characters of an argument's tag.
_MOST_TAG: Final = 512
_JSON_TYPES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}
#: Values as Python writes them: templates write a call's arguments so, and models learn it from them.
_PYTHON: Final = {"True": "true", "False": "false", "None": "null"}
#: What follows an argument's key in quotes: its attribute says whether the value is a string.
_QUOTED_KEY: Final = re.compile(r'([^"]*)"(?:\s+string="(true|false)")?\s*')


class ElementForm(NamedTuple):
    """The tags of a family. `section` and `section_end` are around the calls, or empty; `call` and `argument` end where
    the name begins; a `quoted` name ends with a quotation mark. `padded`: a value has a line of its own. `typed`: an
    argument's tag says whether its value is a string. `gap` stands between a call's tags.
    """

    section: str
    section_end: str
    call: str
    call_end: str
    argument: str
    argument_end: str
    quoted: bool = False
    padded: bool = False
    typed: bool = False
    gap: str = "\n"


class ElementCalls(SectionCalls):
    """Reads the calls of a `FORM`, with optional white space between its tags.

    The section may be missing, and so may closing tags. A value is a string if the tool's schema, or the tag's
    attribute, allows nothing else; such values are streamed. Others are given whole: as JSON, or as strings if they are
    neither JSON nor Python literals, or of a type that the schema does not allow.
    """

    __slots__ = ("_key",)

    FORM: ElementForm
    #: The end of a value.
    END: Markers

    def __init__(self, tools: Items[Tool], *, parallel: bool) -> None:
        super().__init__(tools, parallel=parallel)
        #: The current argument's key, or what comes before its value.
        self._key = ""

    def _named(self, text: str, at: int, out: list[Delta]) -> int:
        end = self._name_text.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing at all, too
        after = literal(text, end, '">' if self.FORM.quoted else ">")
        if after < 0 and after != ABSENT:
            return WAIT
        tool = None if after == ABSENT else self._tools.get(text[at:end].strip())
        return after if self._begun(tool, self._argument, out) else at

    def _argument(self, text: str, at: int, out: list[Delta]) -> int:
        """Read the next argument, or the call's end."""
        after = literal(text, at, self.FORM.argument)
        if after >= 0:
            self._exactly(self._keyed)
            return after
        end = literal(text, at, self.FORM.call_end)
        if end < 0 and (after != ABSENT or end != ABSENT):
            return WAIT
        self._argue("}" if self._argued else "{}", out)
        self._open = False
        self._next(self._between)
        return at if end == ABSENT else end

    def _keyed(self, text: str, at: int, out: list[Delta]) -> int:
        end = text.find(">", at, at + _MOST_TAG)
        if end < 0 and len(text) - at < _MOST_TAG:
            return WAIT
        tag = text[at : at + _MOST_TAG if end < 0 else end]
        said = None
        if self.FORM.quoted:
            found = _QUOTED_KEY.fullmatch(tag)
            key, said = (tag, None) if found is None else found.groups()
        else:
            key = tag
        key = key.strip()
        self._types = types_of(self._called.parameters if self._called else None, key)
        if said is not None and self._types is None:
            self._types = STRING if said == "true" else frozenset(_JSON_TYPES.values()) - STRING | {"null"}
        before = f"{', ' if self._argued else '{'}{quoted(key)}: "
        if self._types == STRING:
            self._argue(f'{before}"', out)
            self._exactly(self._first if self.FORM.padded else self._string)
        else:
            self._key, self._parts = before, []
            self._exactly(self._json)
        return at + len(tag) + (end >= 0)

    def _first(self, text: str, at: int, out: list[Delta]) -> int:
        """Skip the end of the line that a string's tag is on."""
        self._exactly(self._string)
        # The line's end may be that before the closing tag, of a string that is empty.
        return at + 1 if text[at] == "\n" else at

    def _string(self, text: str, at: int, out: list[Delta]) -> int:
        return self._string_to(self.END, self._argument, text, at, out)

    def _json(self, text: str, at: int, out: list[Delta]) -> int:
        found = self.END.match(text, at)
        if found is None or not self.END.is_whole(found):
            more = self.END.search(text, at)
            start = len(text) if more is None else more.start()
            if start == at:
                return WAIT
            self._parts.append(text[at:start])
            return start
        value = "".join(self._parts)
        if self.FORM.padded:
            value = value.removeprefix("\n")
        self._argue(self._key + _value(value, self._types), out)
        self._parts = []
        self._next(self._argument)
        return found.end()


def _value(text: str, types: frozenset[str] | None) -> str:
    """Convert a value to JSON of one of the allowed types; None allows any."""
    shown = _PYTHON.get(text.strip(), text)
    try:
        value: Any = orjson.loads(shown)
    except orjson.JSONDecodeError:
        return quoted(text) if types is None or "string" in types else json_of(text)
    found = "null" if value is None else _JSON_TYPES[type(value)]
    if types is None or "string" not in types or found in types or (found == "integer" and "number" in types):
        return shown.strip()
    return quoted(text)


def format_of(form: ElementForm) -> ToolFormat:
    """Make the format of calls with these tags."""
    markers = Markers(*filter(None, (form.section, form.call)))
    ends = Markers(*((f"\n{form.argument_end}",) if form.padded else ()), form.argument_end)
    members = {
        "__slots__": (),
        "FORM": form,
        "CALL": form.call,
        "SECTION_END": form.section_end,
        "MARKERS": markers,
        "END": ends,
    }
    kind: type[ElementCalls] = type("FormedElementCalls", (ElementCalls,), members)

    def new_parser(use: ToolUse) -> OutputParser:
        return kind(use.tools, parallel=use.parallel)

    def around(key: str, kind: str) -> tuple[str, str]:
        quote, pad = '"' * form.quoted, "\n" * form.padded
        said = f' string="{str(kind == "string").lower()}"' if form.typed else ""
        return f"{key}{quote}{said}>{pad}", f"{pad}{form.argument_end}{form.gap}"

    calls = CallForm(
        *(form.call, (('">' if form.quoted else ">") + form.gap,), "", "\n"),
        begin=form.section and f"{form.section}\n",
        end=form.section_end and f"\n{form.section_end}",
        arguments=single_arguments(ArgumentForm(around, form.call_end, form.argument, split=form.typed)),
    )
    # Tags are written as text of several tokens, but for sections and DeepSeek's mark, which are tokens of their own.
    marks = frozenset(filter(None, (form.section, form.section_end, *_MARK.findall(form.call))))
    return ToolFormat(marks, new_parser, (form.call,), (calls,))


#: A mark of the family's own within a tag.
_MARK: Final = re.compile(r"｜[^｜<>]+｜")
QWEN3_CODER: Final = format_of(
    ElementForm("<tool_call>", "</tool_call>", "<function=", "</function>", "<parameter=", "</parameter>", padded=True)
)
MINIMAX_M2: Final = format_of(
    ElementForm(
        *("<minimax:tool_call>", "</minimax:tool_call>", '<invoke name="', "</invoke>"),
        *('<parameter name="', "</parameter>"),
        quoted=True,
    )
)
DEEPSEEK_V32: Final = format_of(
    ElementForm(
        *("<｜DSML｜function_calls>", "</｜DSML｜function_calls>", '<｜DSML｜invoke name="', "</｜DSML｜invoke>"),
        *('<｜DSML｜parameter name="', "</｜DSML｜parameter>"),
        quoted=True,
        typed=True,
    )
)
#: The tags around a sample call, as templates write them.
_SAMPLE: Final = re.compile(
    r"""(?:(?P<section><[^<>\s=]+>)\s*)?
    (?P<call><[^<>\s=]*(?:\s+name="|=))(?P<name>[\w]+)(?P<quote>"?)>\s*
    (?P<argument><[^<>\s=]*(?:\s+name="|=))[\w]+"?(?P<typed>(?:\s+string="\w+")?)>(?P<pad>\n?)
    [^<>]*?(?P=pad)(?P<argument_end></[^<>\s]+>)(?P<gap>\s*)
    .*?(?P=argument_end)\s*(?P<call_end></[^<>\s]+>)
    (?:\s*(?P<section_end></[^<>\s]+>))?""",
    re.VERBOSE | re.DOTALL,
)


def learned_elements(written: str) -> ToolFormat | None:
    """Learn the tags from what a template writes for a sample call of two arguments; None: they are none."""
    found = _SAMPLE.search(written)
    if found is None:
        return None
    section, section_end = found["section"] or "", found["section_end"] or ""
    if section.startswith("</") or not section_end:
        section = section_end = ""
    return format_of(
        ElementForm(
            *(section, section_end, found["call"], found["call_end"], found["argument"], found["argument_end"]),
            quoted=bool(found["quote"]),
            padded=bool(found["pad"]),
            typed=bool(found["typed"]),
            gap=found["gap"],
        )
    )
