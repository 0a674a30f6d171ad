"""The state machine shared by parsers of tool calls: numbering, naming and separation of calls from text."""

import re
from collections.abc import Callable, Collection
from typing import Final

from gateway.text.parsing.call_ids import new_call_id
from gateway.text.parsing.delta import CallArguments, CallStart, Delta, Text
from gateway.text.parsing.markers import ABSENT, Markers, literal
from gateway.text.parsing.offered_tools import ToolUse

#: A state returns this if it needs more text.
WAIT: Final = -1

#: Reads the text from an index on; returns the index that it has read to, which may be the same if the state has
#: changed, or `WAIT`.
State = Callable[[str, int, list[Delta]], int]

_SPACE: Final = re.compile(r"[ \t\r\n]*+")


class CallMachine:
    """An `OutputParser` built of states.

    A state waits only for bounded text, a marker or a name, so that text is re-read a bounded number of times; longer
    parts are read piece by piece. A possible call is kept in `_raw` until it is known to be one (`_start`), or is given
    back as text (`_reject`).
    """

    __slots__ = (
        "_argued",
        "_calls",
        "_held",
        "_ids",
        "_loose",
        "_names",
        "_open",
        "_parallel",
        "_raw",
        "_state",
        "thinking",
    )

    #: Markers that may begin a call.
    MARKERS: Markers

    def __init__(self, names: Collection[str], *, parallel: bool) -> None:
        self._names = frozenset(names)
        self._parallel = parallel
        self._state: State = self._text
        #: Whether the state skips leading white space.
        self._loose = False
        self._held = ""
        self._raw: list[str] | None = None
        self._calls = 0
        self._ids: set[str] = set()
        #: Whether a call has been started, and whether it has had arguments.
        self._open = self._argued = False
        #: See `OutputParser`.
        self.thinking = False

    def flow(self) -> Delta | None:
        return None if self._held or self._raw is not None else self._flowing()

    def _flowing(self) -> Delta | None:
        """`flow` for a state without waiting text."""
        return Text("") if self._state == self._text else None

    def feed(self, text: str) -> list[Delta]:
        if self._held:
            text = self._held + text
        out: list[Delta] = []
        at, end = 0, len(text)
        while at < end:
            if self._loose:
                after = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing at all, too
                if after == at:
                    after = self._state(text, at, out)
            else:
                after = self._state(text, at, out)
            if after < 0:
                break
            if self._raw is not None and after > at:
                self._raw.append(text[at:after])
            at = after
        self._held = text[at:]
        return out

    def finish(self) -> list[Delta]:
        out: list[Delta] = []
        held, self._held = self._held, ""
        if self._raw is not None:
            self._raw.append(held)
            self._reject(out)
        elif held and self._state == self._text:
            out.append(Text(held))
        return out

    def _next(self, state: State) -> None:
        """Set the state for what follows white space."""
        self._state, self._loose = state, True

    def _exactly(self, state: State) -> None:
        """Set the state for what follows, white space included."""
        self._state, self._loose = state, False

    def _text(self, text: str, at: int, out: list[Delta]) -> int:
        found = self.MARKERS.search(text, at)
        if found is None:
            out.append(Text(text[at:]))
            return len(text)
        start = found.start()
        if start > at:
            out.append(Text(text[at:start]))
            return start
        if not self.MARKERS.is_whole(found):
            return WAIT
        self._raw = []
        self._opened(found.group())
        return found.end()

    def _opened(self, marker: str) -> None:
        """Set the state after a marker that may begin a call."""
        raise NotImplementedError

    def _space(self, text: str, at: int, out: list[Delta]) -> int:
        """Skip white space after a call, then read text."""
        self._exactly(self._text)
        return at

    def _reject(self, out: list[Delta]) -> None:
        """Give the pending text back as text: it was no call."""
        if self._raw and (raw := "".join(self._raw)):
            out.append(Text(raw))
        self._raw = None
        self._exactly(self._text)

    def _start(self, name: str, out: list[Delta], given: str | None = None) -> None:
        """Start a call of an offered tool. `given` is the id that the model wrote."""
        self._raw = None
        self._argued = False
        self._open = self._parallel or not self._calls
        if self._open:
            call_id = self._new_id() if given is None or given in self._ids else given
            self._ids.add(call_id)
            out.append(CallStart(self._calls, call_id, name))
        self._calls += 1

    def _new_id(self) -> str:
        return new_call_id()

    def _arguing(self) -> Delta | None:
        """The delta for further pieces of the arguments."""
        return CallArguments(self._calls - 1, "") if self._open and self._argued else None

    def _argue(self, piece: str, out: list[Delta]) -> None:
        """Emit a piece of the current call's arguments."""
        if self._open and piece:
            self._argued = True
            out.append(CallArguments(self._calls - 1, piece))

    def _end_call(self, out: list[Delta]) -> None:
        """End the current call; without arguments it gets an empty object."""
        if not self._argued:
            self._argue("{}", out)
        self._open = False

    def _next_listed(self, item: State, closing: str, text: str, at: int, out: list[Delta]) -> int:
        """Read what follows an object in a list: another one by `item`, or the end, or `closing` if there is such."""
        first = text[at]
        if first in ",{":
            self._raw = []
            self._next(item)
            return at + (first == ",")
        if closing:
            after = literal(text, at, closing)
            if after >= 0:
                self._next(self._space)
                return after
            if after != ABSENT:
                return WAIT
        return at + 1 if first == "]" else self._space(text, at, out)

    def _after(self, text: str, at: int, wanted: str, state: State, otherwise: State) -> int:
        """Skip `wanted` and set `state` if it comes next, else set `otherwise` at the same place."""
        after = literal(text, at, wanted)
        if after == ABSENT:
            self._exactly(otherwise)
            return at
        if after < 0:
            return WAIT
        self._next(state)
        return after


def names_of(use: ToolUse | None) -> list[str]:
    """The names of the tools that may be called."""
    return [] if use is None else [tool.name for tool in use.tools]
