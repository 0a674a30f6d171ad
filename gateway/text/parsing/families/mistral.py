"""Tool calls in Mistral's two forms."""

import re
import secrets
import string
from collections.abc import Collection
from typing import Final

from gateway.text.parsing.call_machine import WAIT
from gateway.text.parsing.delta import Delta
from gateway.text.parsing.json_calls import JsonCalls
from gateway.text.parsing.markers import ABSENT, UNKNOWN, Markers, literal
from gateway.text.parsing.structural_tag import CallForm
from gateway.text.parsing.tool_format import ToolFormat, by_name
from gateway.text.parsing.value_scan import JsonScan

CALLS, CALL_ID, ARGS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
_ALPHABET: Final = string.ascii_letters + string.digits
#: The form of call ids that Mistral's templates accept.
_ID: Final = re.compile(r"[A-Za-z0-9]{9}")
_ID_TEXT: Final = re.compile(r"[^\s\[{]{0,64}+")


class MistralCalls(JsonCalls):
    """`[TOOL_CALLS]` and an array of objects; or, since version 11, `[TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{...}` for each,
    with an optional id.
    """

    __slots__ = ("_listed", "_name_text")

    MARKERS = Markers(CALLS)

    def __init__(self, names: Collection[str], *, parallel: bool) -> None:
        super().__init__(names, parallel=parallel)
        self._name_text = re.compile(rf"[^\s\[{{]{{0,{max(map(len, names), default=0)}}}+")
        #: Whether the calls are in an array.
        self._listed = False

    def _new_id(self) -> str:
        while (given := "".join(secrets.choice(_ALPHABET) for _ in range(9))) in self._ids:
            pass
        return given

    def _valid_id(self, given: str | None) -> str | None:
        return given if given is not None and _ID.fullmatch(given) else None

    def _opened(self, marker: str) -> None:
        self._next(self._form)

    def _form(self, text: str, at: int, out: list[Delta]) -> int:
        self._listed = text[at] == "["
        if self._listed:
            self._next(self._object)
            return at + 1
        self._reset()
        self._exactly(self._called)
        return at

    def _object_ended(self) -> None:
        self._next(self._listing if self._listed else self._space)

    def _called(self, text: str, at: int, out: list[Delta]) -> int:
        end = self._name_text.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing at all, too
        if end == len(text):
            return WAIT
        self._name = text[at:end]
        if self._name not in self._names:
            return self._broken(at, out)
        self._next(self._marked)
        return end

    def _marked(self, text: str, at: int, out: list[Delta]) -> int:
        if text[at] == "{":
            self._begin(out)
            self._scan = JsonScan("{")
            self._exactly(self._given_arguments)
            return at
        for marker, state in ((CALL_ID, self._identity), (ARGS, self._marked)):
            after = literal(text, at, marker)
            if after == UNKNOWN:
                return WAIT
            if after != ABSENT:
                self._next(state)
                return after
        return self._broken(at, out)

    def _identity(self, text: str, at: int, out: list[Delta]) -> int:
        end = _ID_TEXT.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing at all, too
        if end == len(text):
            return WAIT
        self._given = text[at:end]
        self._next(self._marked)
        return end

    def _given_arguments(self, text: str, at: int, out: list[Delta]) -> int:
        end = self._scan.end(text, at)
        self._argue(text[at:] if end < 0 else text[at:end], out)
        self._flows = end < 0 and self._arguing() is not None
        if end < 0:
            return len(text)
        self._end_call(out)
        self._next(self._space)
        return end


def _listed(begin: str) -> CallForm:
    return CallForm('{"name": "', ('", "arguments": ',), "}", ", ", begin, "]")


FORMAT = ToolFormat(
    marks=frozenset({CALLS, CALL_ID, ARGS}),
    new_parser=by_name(MistralCalls),
    triggers=(CALLS,),
    # The model's tokenizer decides whether a space precedes the array.
    forms=(CallForm(CALLS, (ARGS,), ""), _listed(f"{CALLS} ["), _listed(f"{CALLS}[")),
)
