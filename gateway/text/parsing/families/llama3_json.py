"""Tool calls of Llama 3 as JSON objects."""

from collections.abc import Collection

from gateway.text.parsing.call_machine import WAIT
from gateway.text.parsing.delta import Delta
from gateway.text.parsing.json_calls import JsonCalls
from gateway.text.parsing.markers import ABSENT, Markers, literal
from gateway.text.parsing.structural_tag import CallForm
from gateway.text.parsing.tool_format import ToolFormat, by_name

TAG = "<|python_tag|>"


class Llama3JsonCalls(JsonCalls):
    """`{"name": NAME, "parameters": {...}}`, several with `;` or white space between.

    The first object starts the answer or follows `<|python_tag|>`: elsewhere it is an example in a text. Nothing else
    marks it, so it is a call once an offered name and its parameters are there.
    """

    __slots__ = ()

    EAGER = False
    MARKERS = Markers(TAG)

    def __init__(self, names: Collection[str], *, parallel: bool) -> None:
        super().__init__(names, parallel=parallel)
        self._raw = []
        self._next(self._first)

    def _opened(self, marker: str) -> None:
        self._next(self._object)

    def _first(self, text: str, at: int, out: list[Delta]) -> int:
        after = literal(text, at, TAG)
        if after == ABSENT:
            return self._object(text, at, out)
        if after < 0:
            return WAIT
        self._next(self._object)
        return after

    def _object_ended(self) -> None:
        self._next(self._between)

    def _between(self, text: str, at: int, out: list[Delta]) -> int:
        if text[at] not in ";{":
            return self._space(text, at, out)
        self._raw = []
        self._next(self._first)
        return at + (text[at] == ";")


FORMAT = ToolFormat(
    marks=frozenset({TAG}),
    new_parser=by_name(Llama3JsonCalls),
    triggers=('{"name": ',),
    forms=(CallForm('{"name": "', ('", "parameters": ',), "}", "; "),),
    bare=True,
)
