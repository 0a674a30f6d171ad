"""Calls within a section whose arguments are written one by one, each between tags: the base of such families."""

import json
import re
from collections.abc import Sequence as Items
from typing import Final

from gateway.text.parsing.call_machine import WAIT, CallMachine, State
from gateway.text.parsing.delta import Delta
from gateway.text.parsing.markers import ABSENT, Markers, literal
from gateway.text.parsing.offered_tools import Tool

#: The types of an argument that is nothing but a string.
STRING: Final = frozenset({"string"})


class SectionCalls(CallMachine):
    """Reads the beginning of calls, what comes between them, and strings that are streamed.

    A section's tags may be missing. Subclasses read a call's name, from `_named` on, and its arguments.
    """

    __slots__ = ("_called", "_name_text", "_parts", "_tools", "_types")

    #: The tag of a call, and of a section's end; empty where the family has none.
    CALL: str
    SECTION_END: str
    #: Characters that end a name, as in a class of an expression.
    AFTER_NAMES = r"\n\"<>"

    def __init__(self, tools: Items[Tool], *, parallel: bool) -> None:
        super().__init__([tool.name for tool in tools], parallel=parallel)
        self._tools = {tool.name: tool for tool in tools}
        # Longer than all names, to allow for white space around them.
        longest = max(map(len, self._names), default=0) + 16
        self._name_text = re.compile(rf"[^{self.AFTER_NAMES}]{{0,{longest}}}+")
        self._called: Tool | None = None
        #: The current argument: its allowed types, and its text so far.
        self._types: frozenset[str] | None = None
        self._parts: list[str] = []

    def _named(self, text: str, at: int, out: list[Delta]) -> int:
        """Read a call's name."""
        raise NotImplementedError

    def _string(self, text: str, at: int, out: list[Delta]) -> int:
        """Read an argument that is a string, by `_string_to`."""
        raise NotImplementedError

    def _flowing(self) -> Delta | None:
        return self._arguing() if self._state == self._string else super()._flowing()

    def _opened(self, marker: str) -> None:
        self._next(self._named if marker == self.CALL else self._calling)

    def _calling(self, text: str, at: int, out: list[Delta]) -> int:
        """Read the beginning of a call within a section."""
        after = literal(text, at, self.CALL)
        if after == ABSENT:
            self._reject(out)
            return at
        if after < 0:
            return WAIT
        self._next(self._named)
        return after

    def _begun(self, tool: Tool | None, then: State, out: list[Delta]) -> bool:
        """Start a call and set the state for its arguments; False: such a tool was not offered, so it is no call."""
        self._called = tool
        if tool is None:
            # Of several calls in a section, one of a tool that was not offered is no call.
            self._raw = self._raw if self._raw is not None else []
            self._reject(out)
            return False
        self._start(tool.name, out)
        self._next(then)
        return True

    def _between(self, text: str, at: int, out: list[Delta]) -> int:
        """Read what follows a call: another one, the section's end, or text."""
        after = literal(text, at, self.CALL)
        if after >= 0:
            self._raw = []
            self._next(self._named)
            return after
        end = literal(text, at, self.SECTION_END) if self.SECTION_END else ABSENT
        if end < 0 and (after != ABSENT or end != ABSENT):
            return WAIT
        self._next(self._space)
        return at if end == ABSENT else end

    def _string_to(self, ends: Markers, then: State, text: str, at: int, out: list[Delta]) -> int:
        """Stream the text up to one of `ends` as the rest of a JSON string, then set the state."""
        found = ends.search(text, at)
        start = len(text) if found is None else found.start()
        if start > at:
            self._argue(quoted(text[at:start])[1:-1], out)
            return start
        if found is None or not ends.is_whole(found):
            return WAIT
        self._argue('"', out)
        self._next(then)
        return found.end()


def quoted(text: str) -> str:
    """Return a text as a JSON string."""
    return json.dumps(text, ensure_ascii=False)
