"""Tool calls as JSON after a marker of the model's own, learned from the call that its chat template writes.

Many models write `MARKER`, a call as a JSON object or an array of them, and perhaps a closing marker: Apriel, Granite,
Nemotron, Command R7B, GigaChat and others, each with markers of its own.
"""

import json
import re
from typing import Any, Final

from gateway.text.parsing.delta import Delta
from gateway.text.parsing.families.round_trip import SAMPLE_ARGUMENTS, SAMPLE_NAME
from gateway.text.parsing.json_calls import JsonCalls
from gateway.text.parsing.markers import Markers
from gateway.text.parsing.structural_tag import CallForm
from gateway.text.parsing.tool_format import ToolFormat, by_name

#: The marker before a sample call; a plain word is none, as texts have it too.
_OPENING: Final = re.compile(r"(<[^<>\s]{1,64}>|\[[A-Z_]{2,64}\])\s*(?=[\[{])")
_CLOSING: Final = re.compile(r"\s*(<[^<>\s]{1,64}>|\[/[A-Z_]{2,64}\])")
_NAMES: Final = frozenset({"name", "tool_name"})
#: A sample call, cut at its name and its arguments. An id of its own is not written again for every call.
_SAMPLE: Final = re.compile(
    rf'(?P<before>(?:(?!call_\w{{8}}).)*){SAMPLE_NAME}(?P<middle>"\s*,\s*"(?:arguments|parameters)"\s*:\s*)\{{.*',
    re.DOTALL,
)


class MarkedJsonCalls(JsonCalls):
    """Reads a marker, and calls: one object, several, or an array of them. `CLOSING` may be missing, and be empty."""

    __slots__ = ()

    NAMES = _NAMES
    CLOSING = ""

    def _opened(self, marker: str) -> None:
        self._next(self._array)

    def _array(self, text: str, at: int, out: list[Delta]) -> int:
        self._next(self._object)
        return at + (text[at] == "[")

    def _object_ended(self) -> None:
        self._next(self._followed)

    def _followed(self, text: str, at: int, out: list[Delta]) -> int:
        return self._next_listed(self._object, self.CLOSING, text, at, out)


class GraniteCalls(MarkedJsonCalls):
    """An array after `<|tool_call|>`, or objects after `<function_call>` each, as models write before Granite 4."""

    __slots__ = ()

    MARKERS = Markers("<|tool_call|>", "<function_call>")


def listed_json(opening: str, closing: str) -> CallForm:
    """The form of calls in an array between these texts."""
    return CallForm('{"name": "', ('", "arguments": ',), "}", ", ", opening, closing)


GRANITE: Final = ToolFormat(
    frozenset({"<|tool_call|>", "<function_call>"}),
    by_name(GraniteCalls),
    ("<|tool_call|>", "<function_call>"),
    (
        listed_json("<|tool_call|>[", "]"),
        CallForm('<function_call> {"name": "', ('", "arguments": ',), "}", "\n"),
    ),
)


def learned(written: str) -> ToolFormat | None:
    """Learn the format from what a template writes for the sample call; None: it is none of this kind."""
    for found in _OPENING.finditer(written):
        try:
            value, end = json.JSONDecoder().raw_decode(written, found.end())
        except ValueError:
            continue
        if not _is_sample(value):
            continue
        closing = _CLOSING.match(written, end)
        opening, closes = found[1], "" if closing is None else closing[1]
        members = {"__slots__": (), "MARKERS": Markers(opening), "CLOSING": closes}
        kind: type[MarkedJsonCalls] = type("LearnedJsonCalls", (MarkedJsonCalls,), members)
        form = _form(written[found.start() : end], value, closes)
        forms = () if form is None else (form,)
        return ToolFormat(frozenset({opening, closes} - {""}), by_name(kind), (opening,), forms)
    return None


def _form(written: str, value: Any, closes: str) -> CallForm | None:
    """Learn how a call is written up to its arguments; None: its name does not come before them."""
    found = _SAMPLE.fullmatch(written)
    if found is None:
        return None
    begin, end = ("", closes)
    opening = found["before"]
    if isinstance(value, list):
        begin, bracket, opening = opening.partition("[")
        begin, end = begin + bracket, "]" + closes
        return CallForm(opening, (found["middle"],), "}", ", ", begin, end)
    return CallForm(opening, (found["middle"],), "}" + end, "\n")


def _is_sample(value: Any) -> bool:
    call = value[0] if isinstance(value, list) and len(value) == 1 else value
    if not isinstance(call, dict):
        return False
    named = any(call.get(key) == SAMPLE_NAME for key in _NAMES)
    return named and SAMPLE_ARGUMENTS in (call.get("arguments"), call.get("parameters"))
