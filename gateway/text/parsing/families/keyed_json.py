"""Tool calls as JSON objects whose only key is a tool's name: `[{"NAME": {...}}]` between markers (Apertus)."""

import json
import re
from collections.abc import Collection
from typing import Final

from gateway.text.parsing.call_machine import WAIT, CallMachine
from gateway.text.parsing.delta import Delta
from gateway.text.parsing.families.round_trip import SAMPLE_ARGUMENTS, SAMPLE_NAME
from gateway.text.parsing.markers import Markers
from gateway.text.parsing.structural_tag import CallForm
from gateway.text.parsing.tool_format import ToolFormat, by_name
from gateway.text.parsing.value_scan import JsonScan

_NAME: Final = re.compile(r'"([^"\\]{1,256})"\s*:\s*(?=[{"\[\w-])')
_CUT_NAME: Final = re.compile(r'"(?:[^"\\]{0,256}(?:"\s*(?::\s*)?)?)?\Z')
_OPENING: Final = re.compile(r"(<[^<>\s]{1,64}>)\s*(?=\[)")
_CLOSING: Final = re.compile(r"\s*(<[^<>\s]{1,64}>)")


class KeyedJsonCalls(CallMachine):
    """Reads a marker and an array of calls, whose brackets and whose `CLOSING` marker may be missing."""

    __slots__ = ("_scan",)

    CLOSING = ""

    def __init__(self, names: Collection[str], *, parallel: bool) -> None:
        super().__init__(names, parallel=parallel)
        self._scan = JsonScan("{")

    def _flowing(self) -> Delta | None:
        return self._arguing() if self._state == self._arguments and self._scan.is_within() else super()._flowing()

    def _opened(self, marker: str) -> None:
        self._next(self._array)

    def _array(self, text: str, at: int, out: list[Delta]) -> int:
        self._next(self._object)
        return at + (text[at] == "[")

    def _object(self, text: str, at: int, out: list[Delta]) -> int:
        if text[at] != "{":
            self._raw = self._raw if self._raw is not None else []
            self._reject(out)
            return at
        self._next(self._named)
        return at + 1

    def _named(self, text: str, at: int, out: list[Delta]) -> int:
        found = _NAME.match(text, at)
        if found is None and _CUT_NAME.match(text, at):
            return WAIT
        if found is None or found[1] not in self._names or text[found.end()] != "{":
            self._raw = self._raw if self._raw is not None else []
            self._reject(out)
            return at
        self._start(found[1], out)
        self._scan = JsonScan("{")
        self._exactly(self._arguments)
        return found.end()

    def _arguments(self, text: str, at: int, out: list[Delta]) -> int:
        end = self._scan.end(text, at)
        self._argue(text[at:] if end < 0 else text[at:end], out)
        if end < 0:
            return len(text)
        self._end_call(out)
        self._next(self._closed)
        return end

    def _closed(self, text: str, at: int, out: list[Delta]) -> int:
        """Read the end of a call's object."""
        self._next(self._followed)
        return at + (text[at] == "}")

    def _followed(self, text: str, at: int, out: list[Delta]) -> int:
        return self._next_listed(self._object, self.CLOSING, text, at, out)


def learned_keyed(written: str) -> ToolFormat | None:
    """Learn the markers from what a template writes for the sample call; None: it is none of this kind."""
    for found in _OPENING.finditer(written):
        try:
            value, end = json.JSONDecoder().raw_decode(written, found.end())
        except ValueError:
            continue
        if value != [{SAMPLE_NAME: SAMPLE_ARGUMENTS}]:
            continue
        closing = _CLOSING.match(written, end)
        opening, closes = found[1], "" if closing is None else closing[1]
        members = {"__slots__": (), "MARKERS": Markers(opening), "CLOSING": closes}
        kind: type[KeyedJsonCalls] = type("LearnedKeyedCalls", (KeyedJsonCalls,), members)
        # Calls may come within a thought that is not closed.
        form = CallForm('{"', ('": ',), "}", ", ", f"{opening}[", f"]{closes}")
        marks = frozenset({opening, closes} - {""})
        return ToolFormat(marks, by_name(kind), (opening,), (form,), ends_thought=(opening,))
    return None
