"""Tool calls of DeepSeek R1, V3 and V3.1."""

import re
from collections.abc import Collection
from typing import Final

from gateway.text.parsing.call_machine import WAIT
from gateway.text.parsing.delta import Delta
from gateway.text.parsing.marked_calls import MarkedCalls
from gateway.text.parsing.markers import ABSENT, UNKNOWN, Markers, literal
from gateway.text.parsing.structural_tag import CallForm
from gateway.text.parsing.tool_format import ToolFormat, by_name

SECTION, SECTION_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL, CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"
SEPARATOR = "<｜tool▁sep｜>"
_FENCE: Final = "```json"


class DeepseekV3Calls(MarkedCalls):
    """`function`, the separator, the name, and the arguments fenced as code; since V3.1 the name, the separator and
    the arguments.
    """

    __slots__ = ("_name_text",)

    MARKERS = Markers(SECTION, CALL)
    CALL = CALL
    SECTION_END = SECTION_END
    SEPARATOR = Markers(SEPARATOR)
    ENDS = Markers(CALL_END, f"\n```{CALL_END}", f"\n```\n{CALL_END}", f"```{CALL_END}", SECTION_END, CALL)
    END = CALL_END

    def __init__(self, names: Collection[str], *, parallel: bool) -> None:
        super().__init__(names, parallel=parallel)
        self._name_text = re.compile(rf"[^\s`{{<]{{0,{max(map(len, names), default=0)}}}+")

    def _headed(self, header: str, out: list[Delta]) -> bool:
        name = header.strip()
        if name == "function":
            self._next(self._function)
            return True
        return self._called(name, out)

    def _called(self, name: str, out: list[Delta]) -> bool:
        if name not in self._names:
            return False
        self._start(name, out)
        self._next(self._fence)
        return True

    def _function(self, text: str, at: int, out: list[Delta]) -> int:
        """Read the name, or the arguments of a tool that is called "function"."""
        if text[at] == "{" and self._called("function", out):
            return at
        end = self._name_text.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing at all, too
        if end == len(text):
            return WAIT
        if self._called(text[at:end], out):
            return end
        self._reject(out)
        return at

    def _fence(self, text: str, at: int, out: list[Delta]) -> int:
        after = literal(text, at, _FENCE)
        if after == UNKNOWN:
            return WAIT
        if after == ABSENT:
            self._exactly(self._arguments)
            return at
        self._next(self._unfenced)
        return after

    def _unfenced(self, text: str, at: int, out: list[Delta]) -> int:
        self._exactly(self._arguments)
        return at


FORMAT = ToolFormat(
    marks=frozenset({SECTION, SECTION_END, CALL, CALL_END, SEPARATOR}),
    new_parser=by_name(DeepseekV3Calls),
    triggers=(CALL,),
    forms=(
        CallForm(CALL, (SEPARATOR,), CALL_END, "", SECTION, SECTION_END),
        CallForm(f"{CALL}function{SEPARATOR}", (f"\n{_FENCE}\n",), f"\n```{CALL_END}", "\n", SECTION, SECTION_END),
    ),
    ends_thought=(SECTION,),
)
