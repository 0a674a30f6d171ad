"""Tool calls as a JSON array after words that start the answer or a line, which Phi-4-mini and Command R write."""

from collections.abc import Collection

from gateway.text.parsing.call_machine import WAIT
from gateway.text.parsing.delta import Delta, Text
from gateway.text.parsing.families.marked_json import MarkedJsonCalls, listed_json
from gateway.text.parsing.markers import ABSENT, Markers, literal
from gateway.text.parsing.structural_tag import CallForm
from gateway.text.parsing.tool_format import ToolFormat, by_name

FUNCTOOLS, ACTION = "functools", "Action:"


class LeadingJsonCalls(MarkedJsonCalls):
    """Reads `WORDS`, with optional white space between, and an array of calls at the answer's start or after a marker.

    Within a line the words are text.
    """

    __slots__ = ("_word",)

    WORDS: tuple[str, ...]

    def __init__(self, names: Collection[str], *, parallel: bool) -> None:
        super().__init__(names, parallel=parallel)
        self._raw = []
        self._word = 0
        self._next(self._first)

    def _first(self, text: str, at: int, out: list[Delta]) -> int:
        after = literal(text, at, self.WORDS[self._word])
        if after == ABSENT:
            marked = self.MARKERS.match(text, at) if not self._word else None
            if marked is not None and not self.MARKERS.is_whole(marked):
                return WAIT
            self._reject(out)
            return at
        if after < 0:
            return WAIT
        self._word += 1
        self._next(self._first if self._word < len(self.WORDS) else self._listed)
        return after

    def _listed(self, text: str, at: int, out: list[Delta]) -> int:
        """Read the array's beginning, which is needed: the words alone are text."""
        if text[at] != "[":
            self._reject(out)
            return at
        return self._array(text, at, out)


class Phi4MiniCalls(LeadingJsonCalls):
    """`functools[{...}]`, or `<|tool_call|>[{...}]<|/tool_call|>` anywhere."""

    __slots__ = ()

    WORDS = (FUNCTOOLS,)
    MARKERS = Markers("<|tool_call|>")
    CLOSING = "<|/tool_call|>"


class CommandRCalls(LeadingJsonCalls):
    """`Action:` at a line's start, and an array in a fence of the language json."""

    __slots__ = ("_line",)

    WORDS = (ACTION, "```json")
    MARKERS = Markers(f"\n{ACTION}")
    CLOSING = "```"

    def __init__(self, names: Collection[str], *, parallel: bool) -> None:
        super().__init__(names, parallel=parallel)
        #: Whether the marker's line end must be given back as text before the call.
        self._line = False

    def _opened(self, marker: str) -> None:
        self._word, self._line = 1, True
        self._next(self._first)

    def _start(self, name: str, out: list[Delta], given: str | None = None) -> None:
        if self._line:
            out.append(Text("\n"))
            self._line = False
        super()._start(name, out, given)


PHI4_MINI = ToolFormat(
    frozenset({"<|tool_call|>", "<|/tool_call|>"}),
    by_name(Phi4MiniCalls),
    (f"{FUNCTOOLS}[", "<|tool_call|>"),
    tuple(
        listed_json(opening, closing)
        for opening, closing in (("functools[", "]"), ("<|tool_call|>[", "]<|/tool_call|>"))
    ),
)
COMMAND_R = ToolFormat(
    frozenset({ACTION}),
    by_name(CommandRCalls),
    (f"{ACTION}\n```json\n[",),
    (CallForm('{"tool_name": "', ('", "parameters": ',), "}", ",\n", f"{ACTION}\n```json\n[\n", "]\n```"),),
)
