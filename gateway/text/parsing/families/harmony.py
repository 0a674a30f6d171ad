"""Harmony, the format of gpt-oss: messages, each in a channel and perhaps to a recipient."""

import re
from collections.abc import Collection
from typing import Final

from gateway.text.parsing.call_machine import WAIT, names_of
from gateway.text.parsing.channel_calls import ChannelCalls, Kind
from gateway.text.parsing.channel_format import ChannelFamily
from gateway.text.parsing.delta import Delta, Reasoning, Text
from gateway.text.parsing.markers import Markers
from gateway.text.parsing.offered_tools import ToolUse
from gateway.text.parsing.parser import OutputParser
from gateway.text.parsing.structural_tag import ANY_TEXT, CallForm, const, tag_of

START, CHANNEL, MESSAGE, CONSTRAIN = "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"
END, CALL, RETURN = "<|end|>", "<|call|>", "<|return|>"
MARKS: Final = frozenset({START, CHANNEL, MESSAGE, CONSTRAIN, END, CALL, RETURN})
#: Longest header of a message, in characters.
_LONGEST_HEADER: Final = 512
_ENDS: Final = frozenset({END, CALL, RETURN})
_HEADER_ENDS: Final = Markers(MESSAGE, START, END, CALL, RETURN)
_FIRST: Final = Markers(CHANNEL, CONSTRAIN, MESSAGE, " to=", "to=")
_CHANNEL: Final = re.compile(r"<\|channel\|>\s*([^\s<]+)")
_RECIPIENT: Final = re.compile(r"\bto=([^\s<]+)")
_PREFIX: Final = "functions."
_KINDS: Final[dict[str, Kind]] = {"analysis": Reasoning, "commentary": Text, "final": Text}


class HarmonyParser(ChannelCalls):
    """Reads the channel `analysis` as reasoning, messages to `functions.NAME` in any channel as calls, and all else as
    text.

    A message to another recipient, or in an unknown channel, is given as it was written.
    """

    __slots__ = ("_before",)

    MARKERS = Markers(START, CHANNEL)
    BODY_ENDS = Markers(END, CALL, RETURN, START, CHANNEL)

    def __init__(self, names: Collection[str], *, parallel: bool, prompt_end: str) -> None:
        super().__init__(names, parallel=parallel)
        #: The part of the first message's header that is in the prompt.
        self._before = prompt_end.rpartition(START)[2] if START in prompt_end else ""
        header, opened, body = self._before.partition(MESSAGE)
        if opened and not body and not _RECIPIENT.search(header) and self._message(header, []):
            return
        self._raw = []
        self._exactly(self._header if CHANNEL in header and not opened else self._first)

    def _flowing(self) -> Delta | None:
        return self._arguing() if self._state == self._arguments else super()._flowing()

    def finish(self) -> list[Delta]:
        held = self._held
        out = super().finish()
        if held and self._state == self._arguments:
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
        self._speak(kind)
        return True

    def _arguments(self, text: str, at: int, out: list[Delta]) -> int:
        found = self.BODY_ENDS.search(text, at)
        start = len(text) if found is None else found.start()
        if start > at:
            self._argue(text[at:start], out)
            return start
        after = self._closed(found)
        if after != WAIT:
            self._end_call(out)
        return after

    def _closed(self, found: re.Match[str] | None) -> int:
        after = super()._closed(found)
        return found.end() if found is not None and after != WAIT and found.group() in _ENDS else after


_JSON: Final = f"{CONSTRAIN}json{MESSAGE}"
_NEXT: Final = f"{START}assistant"


def _new_parser(use: ToolUse | None, prompt_end: str) -> OutputParser:
    return HarmonyParser(names_of(use), parallel=use is None or use.parallel, prompt_end=prompt_end)


FAMILY: Final = ChannelFamily(
    marks=MARKS,
    new_parser=_new_parser,
    triggers=(f"{CHANNEL}commentary to=",),
    forms=(CallForm(f"{CHANNEL}commentary to={_PREFIX}", (f" {_JSON}", _JSON), CALL, _NEXT),),
    answers=((f"{CHANNEL}final{MESSAGE}", ""), (f"{CHANNEL}final {_JSON}", "")),
    thought=(tag_of(f"{CHANNEL}analysis{MESSAGE}", ANY_TEXT, END), const(_NEXT)),
    opening=START,
)
