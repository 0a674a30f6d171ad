"""Answers of Functionary: version 3.1 writes calls as elements of JSON, 3.2 every message to a recipient."""

import re
from collections.abc import Collection
from typing import Final

from gateway.text.parsing.call_machine import WAIT, CallMachine, names_of
from gateway.text.parsing.channel_format import ChannelFamily
from gateway.text.parsing.delta import Delta
from gateway.text.parsing.markers import ABSENT, UNKNOWN, Markers, literal
from gateway.text.parsing.offered_tools import ToolUse
from gateway.text.parsing.parser import OutputParser
from gateway.text.parsing.structural_tag import CallForm
from gateway.text.parsing.tool_format import ToolFormat, by_name
from gateway.text.parsing.value_scan import JsonScan

CALL, CALL_END = "<function=", "</function>"
RECIPIENT: Final = ">>>"
_EVERYONE: Final = "all"


class NamedJsonCalls(CallMachine):
    """Reads a tool's name after a marker, `AFTER_NAME`, arguments that are a JSON object, and perhaps `CLOSING`."""

    __slots__ = ("_name", "_name_text", "_scan")

    AFTER_NAME: str
    CLOSING: str

    def __init__(self, names: Collection[str], *, parallel: bool) -> None:
        super().__init__(names, parallel=parallel)
        longest = max(map(len, (*self._names, _EVERYONE)))
        self._name_text = re.compile(rf"[\w.-]{{0,{longest}}}+")
        self._name = ""
        self._scan = JsonScan("{")

    def _flowing(self) -> Delta | None:
        return self._arguing() if self._state == self._arguments and self._scan.is_within() else super()._flowing()

    def _opened(self, marker: str) -> None:
        self._exactly(self._named)

    def _named(self, text: str, at: int, out: list[Delta]) -> int:
        end = self._name_text.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing at all, too
        after = UNKNOWN if end == len(text) else literal(text, end, self.AFTER_NAME)
        if after == UNKNOWN:
            return WAIT
        self._name = text[at:end]
        if after == ABSENT or not self._is_read(self._name):
            self._reject(out)
            return at
        return after

    def _is_read(self, name: str) -> bool:
        """Set the state for what follows a name; False: it is no tool's."""
        if name in self._names:
            self._next(self._object)
        return name in self._names

    def _object(self, text: str, at: int, out: list[Delta]) -> int:
        if text[at] != "{":
            self._reject(out)
            return at
        self._start(self._name, out)
        self._scan = JsonScan("{")
        self._exactly(self._arguments)
        return at

    def _arguments(self, text: str, at: int, out: list[Delta]) -> int:
        end = self._scan.end(text, at)
        self._argue(text[at:] if end < 0 else text[at:end], out)
        if end < 0:
            return len(text)
        self._end_call(out)
        self._next(self._closing)
        return end

    def _closing(self, text: str, at: int, out: list[Delta]) -> int:
        return self._after(text, at, self.CLOSING, self._space, self._space)


class FunctionElementCalls(NamedJsonCalls):
    """`<function=NAME>{...}</function>` for each call."""

    __slots__ = ()

    MARKERS = Markers(CALL)
    AFTER_NAME, CLOSING = ">", CALL_END


class RecipientParser(NamedJsonCalls):
    """`>>>NAME`, a line's end and the arguments for each call; `>>>all`, a line's end and text for the user.

    The prompt ends with the first `>>>`.
    """

    __slots__ = ()

    MARKERS = Markers(RECIPIENT)
    AFTER_NAME, CLOSING = "\n", ""

    def __init__(self, names: Collection[str], *, parallel: bool, prompt_end: str) -> None:
        super().__init__(names, parallel=parallel)
        if prompt_end.endswith(RECIPIENT):
            self._raw = []
            self._exactly(self._named)

    def _is_read(self, name: str) -> bool:
        if name != _EVERYONE:
            return super()._is_read(name)
        self._raw = None
        self._exactly(self._text)
        return True


def _new_parser(use: ToolUse | None, prompt_end: str) -> OutputParser:
    return RecipientParser(names_of(use), parallel=use is None or use.parallel, prompt_end=prompt_end)


V31: Final = ToolFormat(
    marks=frozenset({CALL, CALL_END}),
    new_parser=by_name(FunctionElementCalls),
    triggers=(CALL,),
    forms=(CallForm(CALL, (">",), CALL_END, "\n"),),
)
# A guide for calls that may be would have to know that the prompt has the first mark already.
V32: Final = ChannelFamily(marks=frozenset({RECIPIENT}), new_parser=_new_parser, opening=RECIPIENT)
