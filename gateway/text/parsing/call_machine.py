"""What parsers of tool calls share: states that take text, and calls numbered, named and told apart from text."""

import re
from collections.abc import Callable, Collection
from typing import Final

from gateway.text.parsing.call_ids import new_call_id
from gateway.text.parsing.delta import CallArguments, CallStart, Delta, Text
from gateway.text.parsing.markers import ABSENT, Markers, literal
from gateway.text.parsing.offered_tools import ToolUse

#: What a state returns that cannot tell yet.
WAIT: Final = -1

#: Takes the text from a place on; returns how far it has read, which may be nowhere if the state has changed, or
#: `WAIT`.
State = Callable[[str, int, list[Delta]], int]

_SPACE: Final = re.compile(r"[ \t\r\n]*+")


class CallMachine:
    """An `OutputParser` of states.

    A state waits only for what is bounded, a marker or a name, so that nothing is read more often than that; longer
    parts are taken piece by piece. What may be a call is kept in `_raw` until it is known to be one (`_start`), or
    comes back as text (`_reject`).
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

    #: What may begin a call in text.
    MARKERS: Markers

    def __init__(self, names: Collection[str], *, parallel: bool) -> None:
        self._names = frozenset(names)
        self._parallel = parallel
        self._state: State = self._text
        #: Whether the state takes no white space, which is passed over.
        self._loose = False
        self._held = ""
        self._raw: list[str] | None = None
        self._calls = 0
        self._ids: set[str] = set()
        #: Whether a call is under way that is told of, and whether it has had arguments.
        self._open = self._argued = False
        #: See `OutputParser`.
        self.thinking = False

    def flow(self) -> Delta | None:
        """See `OutputParser`."""
        return None if self._held or self._raw is not None else self._flowing()

    def _flowing(self) -> Delta | None:
        """The same, of a state that has nothing waiting."""
        return Text("") if self._state == self._text else None

    def feed(self, text: str) -> list[Delta]:
        """See `OutputParser`."""
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
        """See `OutputParser`."""
        out: list[Delta] = []
        held, self._held = self._held, ""
        if self._raw is not None:
            self._raw.append(held)
            self._reject(out)
        elif held and self._state == self._text:
            out.append(Text(held))
        return out

    def _next(self, state: State) -> None:
        """What comes next, after white space."""
        self._state, self._loose = state, True

    def _exactly(self, state: State) -> None:
        """What comes next, white space included."""
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
        """The marker begins what may be a call: sets the state after it."""
        raise NotImplementedError

    def _space(self, text: str, at: int, out: list[Delta]) -> int:
        """After a call: white space is left out, then comes text."""
        self._exactly(self._text)
        return at

    def _reject(self, out: list[Delta]) -> None:
        """It was no call. What came is text, and so is what follows."""
        if self._raw and (raw := "".join(self._raw)):
            out.append(Text(raw))
        self._raw = None
        self._exactly(self._text)

    def _start(self, name: str, out: list[Delta], given: str | None = None) -> None:
        """It is a call, of a tool that was offered. `given` is the id that the model has given it."""
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
        """What the next piece of the arguments becomes, after their first one."""
        return CallArguments(self._calls - 1, "") if self._open and self._argued else None

    def _argue(self, piece: str, out: list[Delta]) -> None:
        """A piece of the arguments of the call under way."""
        if self._open and piece:
            self._argued = True
            out.append(CallArguments(self._calls - 1, piece))

    def _end_call(self, out: list[Delta]) -> None:
        """The call is whole: without arguments it has an empty object of them."""
        if not self._argued:
            self._argue("{}", out)
        self._open = False

    def _after(self, text: str, at: int, wanted: str, state: State, otherwise: State) -> int:
        """Pass over `wanted` to `state` if it is next, else go to `otherwise` from here."""
        after = literal(text, at, wanted)
        if after == ABSENT:
            self._exactly(otherwise)
            return at
        if after < 0:
            return WAIT
        self._next(state)
        return after


def names_of(use: ToolUse | None) -> list[str]:
    """The tools that may be called."""
    return [] if use is None else [tool.name for tool in use.tools]
