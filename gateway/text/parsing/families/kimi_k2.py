"""Tool calls of Kimi K2."""

from gateway.text.parsing.delta import Delta
from gateway.text.parsing.marked_calls import MarkedCalls
from gateway.text.parsing.markers import Markers
from gateway.text.parsing.tool_format import ToolFormat, by_name

SECTION, SECTION_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CALL, CALL_END = "<|tool_call_begin|>", "<|tool_call_end|>"
SEPARATOR = "<|tool_call_argument_begin|>"
_PREFIX = "functions."


class KimiK2Calls(MarkedCalls):
    """A header is the call's id, `functions.NAME:INDEX`; it is kept, for the model expects it with the result."""

    __slots__ = ()

    MARKERS = Markers(SECTION, CALL)
    CALL = CALL
    SECTION_END = SECTION_END
    SEPARATOR = Markers(SEPARATOR)
    ENDS = Markers(CALL_END, SECTION_END, CALL)
    END = CALL_END

    def _headed(self, header: str, out: list[Delta]) -> bool:
        given = header.strip()
        name, colon, index = given.removeprefix(_PREFIX).rpartition(":")
        numbered = bool(colon) and index.isdecimal()
        if not numbered:
            name = given.removeprefix(_PREFIX)
        if name not in self._names:
            return False
        self._start(name, out, given if numbered else None)
        self._next(self._begun)
        return True

    def _begun(self, text: str, at: int, out: list[Delta]) -> int:
        """Skip white space before the arguments."""
        self._exactly(self._arguments)
        return at


FORMAT = ToolFormat(
    marks=frozenset({SECTION, SECTION_END, CALL, CALL_END, SEPARATOR}),
    new_parser=by_name(KimiK2Calls),
    ends_thought=(SECTION,),
)
