"""Tool calls of Kimi K2."""

from gateway.text.parsing.delta import Delta
from gateway.text.parsing.marked_calls import MarkedCalls
from gateway.text.parsing.markers import Markers
from gateway.text.parsing.offered_tools import Tool
from gateway.text.parsing.structural_tag import CallForm, Format, const, json_arguments, regex_format, sequence_of
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


def _guided_arguments(tool: Tool) -> Format:
    """The rest of the call's id, and the arguments."""
    return sequence_of(regex_format("[0-9]{1,4}"), const(SEPARATOR), json_arguments(tool))


FORMAT = ToolFormat(
    marks=frozenset({SECTION, SECTION_END, CALL, CALL_END, SEPARATOR}),
    new_parser=by_name(KimiK2Calls),
    triggers=(CALL,),
    forms=(
        CallForm(
            *(f"{CALL}{_PREFIX}", (":",), CALL_END, "", SECTION, SECTION_END),
            arguments=_guided_arguments,
        ),
    ),
    ends_thought=(SECTION,),
)
