"""Answers of Kimi K3: channels for the thought, the text and the calls, each between tags of control tokens.

`<|open|>think<|sep|>THOUGHT<|close|>think<|sep|>`, so `response`, and `tools` with, for each call,
`<|open|>call tool="NAME" index="1"<|sep|>` and an element for each argument:
`<|open|>argument key="KEY" type="string"<|sep|>VALUE<|close|>argument<|sep|>`; or all of them as JSON in one, `json`.
"""

import re
from collections.abc import Sequence as Items
from typing import Final

import orjson

from gateway.text.parsing.call_machine import WAIT
from gateway.text.parsing.channel_calls import ChannelCalls, Kind
from gateway.text.parsing.channel_format import ChannelFamily
from gateway.text.parsing.delta import Delta, Reasoning, Text
from gateway.text.parsing.markers import ABSENT, UNKNOWN, Markers, literal
from gateway.text.parsing.offered_tools import Tool, ToolUse
from gateway.text.parsing.parser import OutputParser
from gateway.text.parsing.section_calls import SectionCalls, quoted
from gateway.text.parsing.single_arguments import ArgumentForm, single_arguments
from gateway.text.parsing.structural_tag import (
    ANY_TEXT,
    CallForm,
    Format,
    const,
    json_arguments,
    regex_format,
    sequence_of,
    tag_of,
)

OPEN, CLOSE, TAG_END, END = "<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"
#: Longest tag, in characters: a name of a tool and a key are in it.
_LONGEST_TAG: Final = 1024
_TAG_END: Final = Markers(TAG_END)
_KINDS: Final[dict[str, Kind]] = {"think": Reasoning, "response": Text}
#: Channels and what stands around them, whose tags are no part of the answer.
_OWN: Final = frozenset({*_KINDS, "tools", "message"})
_CALL: Final = re.compile(r'call tool="([^"]*)".*', re.DOTALL)
_ARGUMENT: Final = re.compile(r'argument key="([^"]*)"(?: type="(\w+)")?.*', re.DOTALL)
_OPENED: Final = re.compile(rf"{re.escape(OPEN)}(\w+){re.escape(TAG_END)}\s*\Z")


def _tag(name: str) -> str:
    return f"{OPEN}{name}{TAG_END}"


def _end_tag(name: str) -> str:
    return f"{CLOSE}{name}{TAG_END}"


class KimiK3Parser(ChannelCalls, SectionCalls):
    """Reads the channels of an answer.

    Values of the type `string` are streamed, and so are arguments in one piece. Others are given whole: as JSON, or as
    strings if they are none.
    """

    __slots__ = ("_key", "_unread")

    MARKERS = Markers(OPEN, CLOSE, END)
    BODY_ENDS = MARKERS
    CALL, SECTION_END = OPEN, ""
    VALUE_END = Markers(_end_tag("argument"))
    JSON_END = Markers(_end_tag("json"))

    def __init__(self, tools: Items[Tool], *, parallel: bool, prompt_end: str) -> None:
        super().__init__(tools, parallel=parallel)
        #: Text before the value of the current argument.
        self._key = ""
        #: Whether the section has a call that was none, so that its tags are text too.
        self._unread = False
        opened = _OPENED.search(prompt_end)
        if opened is not None and opened[1] in _KINDS:
            self._speak(_KINDS[opened[1]])

    def _flowing(self) -> Delta | None:
        return self._arguing() if self._state == self._json_block else super()._flowing()

    def _opened(self, marker: str) -> None:
        if marker == END:
            self._raw = None
            self._exactly(self._text)
        else:
            self._exactly(self._opening if marker == OPEN else self._closing)

    def _read_tag(self, text: str, at: int) -> tuple[str, int] | None:
        """Read up to the tag's end: what is in it, and the index after it, or `WAIT`; None: no tag is so long."""
        before, found = _TAG_END.search_near(text, at, _LONGEST_TAG)
        if before > _LONGEST_TAG:
            return None
        if found is None or not _TAG_END.is_whole(found):
            return "", WAIT
        return text[at : found.start()], found.end()

    def _opening(self, text: str, at: int, out: list[Delta]) -> int:
        """Read a tag that opens something outside of calls."""
        read = self._read_tag(text, at)
        if read is not None and read[1] == WAIT:
            return WAIT
        tag, after = read or ("", at)
        if tag in _KINDS:
            self._speak(_KINDS[tag])
        elif tag == "tools":
            self._next(self._calling)
        elif tag.startswith("message"):
            self._raw = None
            self._exactly(self._text)
        elif (called := _CALL.fullmatch(tag)) is None or not self._begun(
            self._tools.get(_unescaped(called[1])), self._argument, out
        ):
            if called is None:
                self._reject(out)
            self._unread = True
            return at
        return after

    def _closing(self, text: str, at: int, out: list[Delta]) -> int:
        """Read a tag that closes something outside of calls: a channel's is left out."""
        read = self._read_tag(text, at)
        if read is not None and read[1] == WAIT:
            return WAIT
        tag, after = read or ("", at)
        if tag not in _OWN or (self._unread and tag == "tools"):
            self._unread = self._unread and tag != "tools"
            self._reject(out)
            return at
        self._raw = None
        self._exactly(self._text)
        return after

    def _named(self, text: str, at: int, out: list[Delta]) -> int:
        return self._opening(text, at, out)

    def _argument(self, text: str, at: int, out: list[Delta]) -> int:
        """Read what follows a call's tag or an argument: another argument, or the call's end."""
        after = literal(text, at, OPEN)
        if after >= 0:
            self._exactly(self._keyed)
            return after
        end = literal(text, at, _end_tag("call"))
        if UNKNOWN in (after, end):
            return WAIT
        self._argue("}" if self._argued and self._key else "" if self._argued else "{}", out)
        self._open = False
        self._key = ""
        self._next(self._space)
        return at if end == ABSENT else end

    def _keyed(self, text: str, at: int, out: list[Delta]) -> int:
        """Read an argument's tag."""
        read = self._read_tag(text, at)
        if read is not None and read[1] == WAIT:
            return WAIT
        tag, after = read or ("", at)
        if tag.startswith("json") and not self._argued:
            self._exactly(self._json_block)
            return after
        found = _ARGUMENT.fullmatch(tag)
        if found is None or (self._argued and not self._key):
            # The call is over, and the tag another's.
            self._argue("}" if self._key else "" if self._argued else "{}", out)
            self._open, self._key, self._raw = False, "", [OPEN]
            self._exactly(self._opening)
            return at
        self._key = f"{', ' if self._key else '{'}{quoted(_unescaped(found[1]))}: "
        if found[2] == "string":
            self._argue(f'{self._key}"', out)
            self._exactly(self._string)
        else:
            self._parts = []
            self._exactly(self._value)
        return after

    def _string(self, text: str, at: int, out: list[Delta]) -> int:
        return self._string_to(self.VALUE_END, self._argument, text, at, out)

    def _value(self, text: str, at: int, out: list[Delta]) -> int:
        found = self.VALUE_END.search(text, at)
        start = len(text) if found is None else found.start()
        if start > at:
            self._parts.append(text[at:start])
            return start
        if found is None or not self.VALUE_END.is_whole(found):
            return WAIT
        self._argue(self._key + _json("".join(self._parts)), out)
        self._parts = []
        self._next(self._argument)
        return found.end()

    def _json_block(self, text: str, at: int, out: list[Delta]) -> int:
        found = self.JSON_END.search(text, at)
        start = len(text) if found is None else found.start()
        if start > at:
            self._argue(text[at:start], out)
            return start
        if found is None or not self.JSON_END.is_whole(found):
            return WAIT
        self._next(self._argument)
        return found.end()


def _unescaped(value: str) -> str:
    return value.replace("&quot;", '"').replace("&amp;", "&")


def _json(text: str) -> str:
    """Give a value as JSON; what is none becomes a string."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return quoted(text)
    return text.strip()


def _around(key: str, kind: str) -> tuple[str, str]:
    written = key.replace("&", "&amp;").replace('"', "&quot;")
    return f'{written}" type="{kind}"{TAG_END}', _end_tag("argument")


_arguments = single_arguments(ArgumentForm(_around, _end_tag("call"), f'{OPEN}argument key="', split=True))


def _guided_arguments(tool: Tool) -> Format | None:
    """The rest of the call's tag, and the arguments: what cannot be held to one by one comes in one piece of JSON."""
    arguments = _arguments(tool)
    if arguments is None:
        arguments = tag_of(_tag('json type="object"'), json_arguments(tool), _end_tag("json") + _end_tag("call"))
    return sequence_of(regex_format("[0-9]{1,3}"), const(f'"{TAG_END}'), arguments)


def _new_parser(use: ToolUse | None, prompt_end: str) -> OutputParser:
    tools = () if use is None else use.tools
    return KimiK3Parser(tools, parallel=use is None or use.parallel, prompt_end=prompt_end)


FAMILY: Final = ChannelFamily(
    marks=frozenset({OPEN, CLOSE, TAG_END, END}),
    new_parser=_new_parser,
    triggers=(f"{OPEN}call ",),
    forms=(
        CallForm(
            *(f'{OPEN}call tool="', ('" index="',), "", ""),
            *(_tag("tools"), _end_tag("tools")),
            arguments=_guided_arguments,
        ),
    ),
    answers=((_tag("response"), _end_tag("response")), ("", "")),
    thought=(tag_of(_tag("think"), ANY_TEXT, _end_tag("think")),),
)
