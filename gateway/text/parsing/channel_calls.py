"""Answers in channels: the base of families that write thoughts, text and calls each as a message of its own."""

import re
from typing import ClassVar

from gateway.text.parsing.call_machine import WAIT, CallMachine
from gateway.text.parsing.delta import Delta, Reasoning, Text
from gateway.text.parsing.markers import Markers

#: Kinds of messages.
Kind = type[Reasoning] | type[Text]


class ChannelCalls(CallMachine):
    """Reads messages whose bodies are thoughts or text. Messages of one kind are joined by a newline.

    Subclasses read what is between the messages, and calls.
    """

    # Without slots: those of two bases do not go together.

    #: Marks that end a message's body.
    BODY_ENDS: ClassVar[Markers]
    _kind: Kind = Text
    #: The kinds that messages have been of.
    _spoken: frozenset[Kind] = frozenset()

    def _flowing(self) -> Delta | None:
        return self._kind("") if self._state == self._body else super()._flowing()

    def finish(self) -> list[Delta]:
        held = self._held
        out = super().finish()
        if held and self._state == self._body:
            out.append(self._kind(held))
        return out

    def _speak(self, kind: Kind) -> None:
        """Begin a message of this kind."""
        self._raw = None
        self._kind = kind
        self.thinking = kind is Reasoning
        self._exactly(self._joined if kind in self._spoken else self._body)
        self._spoken |= {kind}

    def _joined(self, text: str, at: int, out: list[Delta]) -> int:
        """Part a message from the one of its kind before it."""
        out.append(self._kind("\n"))
        self._exactly(self._body)
        return at

    def _body(self, text: str, at: int, out: list[Delta]) -> int:
        found = self.BODY_ENDS.search(text, at)
        start = len(text) if found is None else found.start()
        if start > at:
            out.append(self._kind(text[at:start]))
            return start
        return self._closed(found)

    def _closed(self, found: re.Match[str] | None) -> int:
        """End a body before a marker, which is read as what is between the messages."""
        if found is None or not self.BODY_ENDS.is_whole(found):
            return WAIT
        self.thinking = False
        self._exactly(self._text)
        return found.start()

    def _kept(self, text: str, at: int, out: list[Delta]) -> int:
        """Give what was read so far back as text."""
        self._reject(out)
        return at
