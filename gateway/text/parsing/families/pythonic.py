"""Tool calls as a list of Python calls, which Llama 3.2 and 4, Gemma 3 and LFM2 write."""

import json
import re
from collections.abc import Collection
from typing import Final

from gateway.text.parsing.call_machine import WAIT, CallMachine
from gateway.text.parsing.delta import Delta
from gateway.text.parsing.markers import ABSENT, UNKNOWN, Markers, literal
from gateway.text.parsing.python_literal import json_of
from gateway.text.parsing.single_arguments import ArgumentForm, single_arguments
from gateway.text.parsing.structural_tag import CallForm
from gateway.text.parsing.tool_format import ToolFormat, by_name
from gateway.text.parsing.value_scan import PythonScan

OPEN, CLOSE = "<|python_start|>", "<|python_end|>"
_KEY: Final = re.compile(r"([^\W\d]\w{0,63}+)[ \t\r\n]{0,8}+")


class PythonicCalls(CallMachine):
    """`[f(a=1, b="x"), g()]` at the answer's start or between `<|python_start|>` and `<|python_end|>`.

    An argument is given once it is complete; one that is cut off is left out.
    """

    __slots__ = ("_key", "_name", "_name_text", "_parts", "_scan", "_started")

    OPENING, CLOSING = OPEN, CLOSE
    MARKERS = Markers(OPEN)

    def __init__(self, names: Collection[str], *, parallel: bool) -> None:
        super().__init__(names, parallel=parallel)
        self._name_text = re.compile(rf"[^\s(,\[\]]{{0,{max(map(len, names), default=0)}}}+")
        self._name = self._key = ""
        self._started = False
        #: Scans the current value.
        self._parts: list[str] = []
        self._scan = PythonScan()
        self._raw = []
        self._next(self._first)

    def _opened(self, marker: str) -> None:
        self._next(self._list)

    def _first(self, text: str, at: int, out: list[Delta]) -> int:
        after = literal(text, at, self.OPENING)
        if after == UNKNOWN:
            return WAIT
        if after == ABSENT:
            return self._list(text, at, out)
        self._next(self._list)
        return after

    def _broken(self, at: int, out: list[Delta]) -> int:
        if self._raw is not None:
            self._reject(out)
        else:
            self._close(out)
            self._exactly(self._text)
        return at

    def _close(self, out: list[Delta]) -> None:
        self._argue("}" if self._argued else "{}", out)
        self._open = False

    def _list(self, text: str, at: int, out: list[Delta]) -> int:
        if text[at] != "[":
            return self._broken(at, out)
        self._next(self._called)
        return at + 1

    def _called(self, text: str, at: int, out: list[Delta]) -> int:
        end = self._name_text.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing at all, too
        if end == len(text):
            return WAIT
        self._name = text[at:end]
        if self._name not in self._names:
            return self._broken(at, out)
        self._started = False
        self._next(self._opening)
        return end

    def _opening(self, text: str, at: int, out: list[Delta]) -> int:
        if text[at] != "(":
            return self._broken(at, out)
        self._next(self._argument)
        return at + 1

    def _begin(self, out: list[Delta]) -> None:
        if not self._started:
            self._started = True
            self._start(self._name, out)

    def _argument(self, text: str, at: int, out: list[Delta]) -> int:
        """Read an argument's name, or the call's end."""
        if text[at] == ")":
            self._begin(out)
            self._close(out)
            self._next(self._ended)
            return at + 1
        found = _KEY.match(text, at)
        if found is None:
            return self._broken(at, out)
        end = found.end()
        if end == len(text):
            return WAIT
        if text[end] != "=":
            return self._broken(at, out)
        self._begin(out)
        self._key = found.group(1)
        self._scan = PythonScan()
        self._exactly(self._value)
        return end + 1

    def _value(self, text: str, at: int, out: list[Delta]) -> int:
        end = self._scan.end(text, at)
        self._parts.append(text[at:] if end < 0 else text[at:end])
        if end < 0:
            return len(text)
        value = json_of("".join(self._parts))
        self._argue(f"{', ' if self._argued else '{'}{json.dumps(self._key, ensure_ascii=False)}: {value}", out)
        self._parts = []
        self._next(self._argument)
        return end + (text[end] == ",")

    def _ended(self, text: str, at: int, out: list[Delta]) -> int:
        """Read what follows a call."""
        if text[at] == "]":
            self._next(self._listed)
            return at + 1
        if text[at] != ",":
            return self._space(text, at, out)
        self._raw = []
        self._next(self._called)
        return at + 1

    def _listed(self, text: str, at: int, out: list[Delta]) -> int:
        """Read what follows the list."""
        after = literal(text, at, self.CLOSING)
        if after == UNKNOWN:
            return WAIT
        if after == ABSENT:
            return self._space(text, at, out)
        self._next(self._space)
        return after


class Lfm2Calls(PythonicCalls):
    """The same with the marks of LFM2."""

    __slots__ = ()

    OPENING, CLOSING = "<|tool_call_start|>", "<|tool_call_end|>"
    MARKERS = Markers(OPENING)


def _around(key: str, kind: str) -> tuple[str, str]:
    del kind
    return f"{key}=", ""


def _form(opening: str, closing: str) -> CallForm:
    arguments = single_arguments(ArgumentForm(_around, ")", between=", ", raw=False))
    return CallForm("", ("(",), "", ", ", f"{opening}[", f"]{closing}", arguments=arguments)


def _python(arguments: str) -> str:
    """Write the rest of a call with these arguments. What is no JSON object stands as it is."""
    try:
        found = json.loads(arguments)
    except ValueError:
        found = None
    return (
        f"{', '.join(f'{key}={value!r}' for key, value in found.items())})"
        if isinstance(found, dict)
        else f"{arguments})"
    )


FORMAT = ToolFormat(
    marks=frozenset({OPEN, CLOSE}), new_parser=by_name(PythonicCalls), forms=(_form("", ""),), rewritten=_python
)
LFM2 = ToolFormat(
    marks=frozenset({Lfm2Calls.OPENING, Lfm2Calls.CLOSING}),
    new_parser=by_name(Lfm2Calls),
    triggers=(Lfm2Calls.OPENING,),
    forms=(_form(Lfm2Calls.OPENING, Lfm2Calls.CLOSING),),
    rewritten=_python,
)
