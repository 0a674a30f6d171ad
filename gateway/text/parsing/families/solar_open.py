"""Answers of Solar Open: thoughts, text and calls are a turn each, with a mark that says which.

`<|think|>THOUGHT<|end|><|begin|>assistant<|content|>TEXT<|end|>`, and for calls `<|tool_calls|>`, then
`<|tool_call:begin|>ID<|tool_call:name|>NAME<|tool_call:args|>{...}<|tool_call:end|>` for each, and `<|calls|>`.
"""

import re
from collections.abc import Collection
from typing import Final

from gateway.text.parsing.call_machine import WAIT, names_of
from gateway.text.parsing.channel_calls import ChannelCalls, Kind
from gateway.text.parsing.channel_format import ChannelFamily
from gateway.text.parsing.delta import Delta, Reasoning, Text
from gateway.text.parsing.marked_calls import MarkedCalls
from gateway.text.parsing.markers import ABSENT, UNKNOWN, Markers, literal
from gateway.text.parsing.offered_tools import ToolUse
from gateway.text.parsing.parser import OutputParser
from gateway.text.parsing.structural_tag import ANY_TEXT, CallForm, const, tag_of

BEGIN, THINK, CONTENT, SECTION = "<|begin|>", "<|think|>", "<|content|>", "<|tool_calls|>"
END, FLUSH, SECTION_END = "<|end|>", "<|flush|>", "<|calls|>"
CALL, NAME, ARGUMENTS, CALL_END = "<|tool_call:begin|>", "<|tool_call:name|>", "<|tool_call:args|>", "<|tool_call:end|>"
_ROLE: Final = "assistant"
_KINDS: Final[dict[str, Kind]] = {THINK: Reasoning, CONTENT: Text}


class SolarOpenParser(ChannelCalls, MarkedCalls):
    """Reads the turns of an answer. A call's id is kept, for the model expects it with the result."""

    __slots__ = ("_unread",)

    MARKERS = Markers(BEGIN, THINK, CONTENT, SECTION, CALL, END, FLUSH, SECTION_END)
    BODY_ENDS = MARKERS
    CALL = CALL
    SECTION_END = SECTION_END
    SEPARATOR = Markers(ARGUMENTS)
    ENDS = Markers(CALL_END, SECTION_END, CALL, END)
    END = CALL_END

    def __init__(self, names: Collection[str], *, parallel: bool, prompt_end: str) -> None:
        super().__init__(names, parallel=parallel)
        #: Whether the section has a call that was none, so that its end is text too.
        self._unread = False
        opened = next((kind for mark, kind in _KINDS.items() if prompt_end.rstrip().endswith(mark)), None)
        if opened is not None:
            self._speak(opened)

    def _opened(self, marker: str) -> None:
        if marker in _KINDS:
            self._speak(_KINDS[marker])
        elif marker == BEGIN:
            self._exactly(self._role)
        elif marker in (CALL, SECTION):
            super()._opened(marker)
        elif self._unread and marker == SECTION_END:
            self._unread = False
            self._exactly(self._kept)
        else:
            self._raw = None
            self._exactly(self._text)

    def _role(self, text: str, at: int, out: list[Delta]) -> int:
        after = literal(text, at, _ROLE)
        if after == UNKNOWN:
            return WAIT
        if after == ABSENT:
            self._reject(out)
            return at
        self._raw = None
        self._exactly(self._text)
        return after

    def _headed(self, header: str, out: list[Delta]) -> bool:
        given, found, name = header.partition(NAME)
        if not found or name.strip() not in self._names:
            self._unread = True
            return False
        self._start(name.strip(), out, given.strip() or None)
        self._exactly(self._arguments)
        return True


def _new_parser(use: ToolUse | None, prompt_end: str) -> OutputParser:
    return SolarOpenParser(names_of(use), parallel=use is None or use.parallel, prompt_end=prompt_end)


FAMILY: Final = ChannelFamily(
    marks=frozenset(
        {BEGIN, THINK, CONTENT, SECTION, END, FLUSH, SECTION_END, CALL, NAME, ARGUMENTS, CALL_END},
    ),
    new_parser=_new_parser,
    triggers=(CALL,),
    forms=(
        CallForm(
            *(CALL, (ARGUMENTS,), CALL_END, "", SECTION, SECTION_END),
            lead=rf"[a-z0-9]{{10}}{re.escape(NAME)}",
        ),
    ),
    answers=((CONTENT, END), ("", "")),
    thought=(tag_of(THINK, ANY_TEXT, END), const(f"{BEGIN}{_ROLE}")),
)
