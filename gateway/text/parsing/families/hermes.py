"""Tool calls in Hermes' form, which Qwen's models write too."""

from gateway.text.parsing.call_machine import WAIT
from gateway.text.parsing.delta import Delta
from gateway.text.parsing.json_calls import JsonCalls
from gateway.text.parsing.markers import ABSENT, Markers, literal
from gateway.text.parsing.structural_tag import CallForm
from gateway.text.parsing.tool_format import ToolFormat, by_name

OPEN, CLOSE = "<tool_call>", "</tool_call>"


class HermesCalls(JsonCalls):
    """`<tool_call>`, a call as a JSON object, `</tool_call>` for each call. White space after calls is skipped.

    The closing tag may be missing, and a pair may have several objects.
    """

    __slots__ = ()

    MARKERS = Markers(OPEN)

    def _opened(self, marker: str) -> None:
        self._next(self._object)

    def _object_ended(self) -> None:
        self._next(self._closing)

    def _closing(self, text: str, at: int, out: list[Delta]) -> int:
        if text[at] == "{":
            self._raw = []
            self._next(self._object)
            return at
        after = literal(text, at, CLOSE)
        if after == ABSENT:
            return self._space(text, at, out)
        if after < 0:
            return WAIT
        self._next(self._space)
        return after


FORMAT = ToolFormat(
    marks=frozenset({OPEN, CLOSE}),
    new_parser=by_name(HermesCalls),
    triggers=(OPEN,),
    forms=(CallForm(f'{OPEN}\n{{"name": "', ('", "arguments": ',), f"}}\n{CLOSE}", "\n"),),
)
