"""Harmony, the format of gpt-oss: messages, each in a channel and perhaps to a recipient."""

import re
from collections.abc import Collection
from typing import Final

from gateway.text.parsing.call_machine import WAIT, CallMachine, names_of
from gateway.text.parsing.delta import Delta, Reasoning, Text
from gateway.text.parsing.markers import Markers
from gateway.text.parsing.offered_tools import ToolUse, offered
from gateway.text.parsing.parser import OutputParser
from gateway.text.parsing.structural_tag import ANY_TEXT, CallForm, Format, calls_or_answer_tag, strict_tag, tag_of

START, CHANNEL, MESSAGE, CONSTRAIN = "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"
END, CALL, RETURN = "<|end|>", "<|call|>", "<|return|>"
MARKS: Final = frozenset({START, CHANNEL, MESSAGE, CONSTRAIN, END, CALL, RETURN})
#: Longest header of a message, in characters.
_LONGEST_HEADER: Final = 512
_ENDS: Final = frozenset({END, CALL, RETURN})
_HEADER_ENDS: Final = Markers(MESSAGE, START, END, CALL, RETURN)
_BODY_ENDS: Final = Markers(END, CALL, RETURN, START, CHANNEL)
_FIRST: Final = Markers(CHANNEL, CONSTRAIN, MESSAGE, " to=", "to=")
_CHANNEL: Final = re.compile(r"<\|channel\|>\s*([^\s<]+)")
_RECIPIENT: Final = re.compile(r"\bto=([^\s<]+)")
_PREFIX: Final = "functions."
_KINDS: Final[dict[str, type[Reasoning] | type[Text]]] = {"analysis": Reasoning, "commentary": Text, "final": Text}


class HarmonyParser(CallMachine):
    """Reads the channel `analysis` as reasoning, messages to `functions.NAME` in any channel as calls, and all else as
    text. Messages of one kind are joined by a newline.

    A message to another recipient, or in an unknown channel, is given as it was written.
    """

    __slots__ = ("_before", "_emitted", "_kind")

    MARKERS = Markers(START, CHANNEL)

    def __init__(self, names: Collection[str], *, parallel: bool, prompt_end: str) -> None:
        super().__init__(names, parallel=parallel)
        #: The part of the first message's header that is in the prompt.
        self._before = prompt_end.rpartition(START)[2] if START in prompt_end else ""
        self._kind: type[Reasoning] | type[Text] = Text
        self._emitted: set[type[Reasoning] | type[Text]] = set()
        header, opened, body = self._before.partition(MESSAGE)
        if opened and not body and not _RECIPIENT.search(header) and self._message(header, []):
            return
        self._raw = []
        self._exactly(self._header if CHANNEL in header and not opened else self._first)

    def _flowing(self) -> Delta | None:
        if self._state == self._body:
            return self._kind("")
        return self._arguing() if self._state == self._arguments else super()._flowing()

    def finish(self) -> list[Delta]:
        held = self._held
        out = super().finish()
        if held and self._state == self._body:
            out.append(self._kind(held))
        elif held and self._state == self._arguments:
            self._argue(held, out)
        return out

    def _first(self, text: str, at: int, out: list[Delta]) -> int:
        found = _FIRST.match(text, at)
        if found is None:
            self._reject(out)
        elif not _FIRST.is_whole(found):
            return WAIT
        else:
            self._exactly(self._header)
        return at

    def _opened(self, marker: str) -> None:
        self._before = marker
        self._exactly(self._header)

    def _header(self, text: str, at: int, out: list[Delta]) -> int:
        before, found = _HEADER_ENDS.search_near(text, at, _LONGEST_HEADER)
        if before <= _LONGEST_HEADER:
            if found is None or not _HEADER_ENDS.is_whole(found):
                return WAIT
            if found.group() == MESSAGE and self._message(self._before + text[at : found.start()], out):
                return found.end()
        self._reject(out)
        return at

    def _message(self, header: str, out: list[Delta]) -> bool:
        """Set the state for a message's body. False: the header is invalid."""
        channel, recipient = _CHANNEL.search(header), _RECIPIENT.search(header)
        if recipient is not None:
            name = recipient.group(1).removeprefix(_PREFIX)
            if name not in self._names:
                return False
            self._start(name, out)
            self._exactly(self._arguments)
            return True
        kind = _KINDS.get(channel.group(1)) if channel is not None else None
        if kind is None:
            return False
        self._raw = None
        self._kind = kind
        self.thinking = kind is Reasoning
        if kind in self._emitted:
            out.append(kind("\n"))
        self._emitted.add(kind)
        self._exactly(self._body)
        return True

    def _body(self, text: str, at: int, out: list[Delta]) -> int:
        found = _BODY_ENDS.search(text, at)
        start = len(text) if found is None else found.start()
        if start > at:
            out.append(self._kind(text[at:start]))
            return start
        return self._ended(found, out)

    def _arguments(self, text: str, at: int, out: list[Delta]) -> int:
        found = _BODY_ENDS.search(text, at)
        start = len(text) if found is None else found.start()
        if start > at:
            self._argue(text[at:start], out)
            return start
        return self._ended(found, out)

    def _ended(self, found: re.Match[str] | None, out: list[Delta]) -> int:
        if found is None or not _BODY_ENDS.is_whole(found):
            return WAIT
        self._end_call(out)
        self.thinking = False
        self._exactly(self._text)
        return found.end() if found.group() in _ENDS else found.start()


_JSON: Final = f"{CONSTRAIN}json{MESSAGE}"
_NEXT: Final = f"{START}assistant"
_FORMS: Final = (CallForm(f"{CHANNEL}commentary to={_PREFIX}", (f" {_JSON}", _JSON), CALL, _NEXT),)
_THOUGHT: Final[list[Format]] = [
    tag_of(f"{CHANNEL}analysis{MESSAGE}", ANY_TEXT, END),
    {"type": "const_string", "value": _NEXT},
]


class HarmonyFormat:
    """The output format of gpt-oss."""

    __slots__ = ("calls", "marks", "name")

    def __init__(self, *, calls: bool) -> None:
        self.name = "harmony"
        self.marks = MARKS
        self.calls = calls

    def parser(self, use: ToolUse | None, prompt_end: str) -> OutputParser | None:
        """A parser for each answer: even the plainest has a channel."""
        names = names_of(offered(use)) if self.calls else []
        return HarmonyParser(names, parallel=use is None or use.parallel, prompt_end=prompt_end)

    def structural_tag(self, use: ToolUse) -> str | None:
        return strict_tag(use, f"{CHANNEL}commentary to=", _FORMS) if self.calls else None

    def calls_or_answer_tag(self, use: ToolUse, answer: Format) -> str | None:
        answers = [tag_of(f"{CHANNEL}final{middle}", answer, "") for middle in (MESSAGE, f" {_JSON}")]
        return calls_or_answer_tag(use, _FORMS, answers, _THOUGHT) if self.calls else None
