"""Tool calls as JSON objects: a name, and arguments as JSON text."""

import re
from collections.abc import Collection
from typing import Final

import orjson

from gateway.text.parsing.call_machine import WAIT, CallMachine
from gateway.text.parsing.delta import Delta
from gateway.text.parsing.structural_tag import CALL_ARGUMENTS
from gateway.text.parsing.value_scan import JsonScan

#: Keys of a call; an object that has another key before its call has started is none.
_KEYS: Final = CALL_ARGUMENTS | {"id", "type", "tool_call_id"}
_KEY: Final = re.compile(r'"([^"\\]{0,32})"')
_CUT_KEY: Final = re.compile(r'"[^"\\]{0,32}\Z')


class JsonCalls(CallMachine):
    """Reads `{"name": NAME, "arguments": {...}}`, with keys in any order, from `_object` on.

    A call starts with its arguments, so that anything malformed before them is given back as text. `EAGER`: an object
    with only a name is a call too, as after a marker. `SURE`: only a call is possible, so it starts with its name.
    `NAMES`: the keys of a call's name.
    """

    __slots__ = (
        "_early",
        "_flows",
        "_given",
        "_key_read",
        "_name",
        "_name_cut",
        "_name_whole",
        "_scan",
        "_started",
        "_stringed",
    )

    EAGER = True
    SURE = False
    NAMES = frozenset({"name"})

    def __init__(self, names: Collection[str], *, parallel: bool) -> None:
        super().__init__(names, parallel=parallel)
        longest = max(map(len, names), default=0)
        # Longer names are not offered, and need not be waited for.
        self._name_whole = re.compile(rf'"([^"\\]{{1,{longest}}})"') if longest else _KEY
        self._name_cut = re.compile(rf'"[^"\\]{{0,{longest}}}\Z')
        self._scan = JsonScan("{")
        self._reset()

    def _reset(self) -> None:
        self._key_read = ""
        self._name: str | None = None
        self._given: str | None = None
        self._started = False
        #: Arguments that must wait: they came before the name, or (`_stringed`) within a string.
        self._early: list[str] | None = None
        self._stringed = False
        #: Whether the text is arguments that are streamed.
        self._flows = False

    def _flowing(self) -> Delta | None:
        if self._flows:
            return self._arguing() if self._scan.is_within() else None
        return super()._flowing()

    def _object_ended(self) -> None:
        """Set the state after a call's object."""
        raise NotImplementedError

    def _broken(self, at: int, out: list[Delta]) -> int:
        if self._raw is not None:
            self._reject(out)
        else:
            self._open = False
            self._object_ended()
        return at

    def _object(self, text: str, at: int, out: list[Delta]) -> int:
        if text[at] != "{":
            return self._broken(at, out)
        self._reset()
        self._next(self._key)
        return at + 1

    def _key(self, text: str, at: int, out: list[Delta]) -> int:
        if text[at] == "}":
            return self._close(at, out)
        found = _KEY.match(text, at)
        if found is None:
            return WAIT if _CUT_KEY.match(text, at) else self._broken(at, out)
        self._key_read = found.group(1)
        if self._raw is not None and self._key_read not in _KEYS | self.NAMES:
            return self._broken(at, out)
        self._next(self._colon)
        return found.end()

    def _colon(self, text: str, at: int, out: list[Delta]) -> int:
        if text[at] != ":":
            return self._broken(at, out)
        self._next(self._value)
        return at + 1

    def _value(self, text: str, at: int, out: list[Delta]) -> int:
        key, first = self._key_read, text[at]
        if key in self.NAMES and self._name is None:
            return self._named(text, at, out)
        if key == "id" and self._given is None and not self._started:
            return self._identified(text, at, out)
        if first in ",:}]":
            return self._broken(at, out)
        self._scan = JsonScan(first)
        if key not in CALL_ARGUMENTS or self._argued_before() or first not in '{["':
            self._exactly(self._skipped)
            return at
        self._stringed = first == '"'
        if self._name is not None and not self._started:
            self._begin(out)
        if self._name is None or self._stringed:
            self._early = []
        self._exactly(self._arguments)
        return at

    def _argued_before(self) -> bool:
        return self._early is not None or (self._started and self._argued)

    def _named(self, text: str, at: int, out: list[Delta]) -> int:
        found = self._name_whole.match(text, at)
        if found is None:
            return WAIT if self._name_cut.match(text, at) else self._broken(at, out)
        if found.group(1) not in self._names:
            return self._broken(at, out)
        self._name = found.group(1)
        if self.SURE or self._early is not None:
            self._begin(out)
        self._next(self._comma)
        return found.end()

    def _identified(self, text: str, at: int, out: list[Delta]) -> int:
        found = _KEY.match(text, at)
        if found is None and _CUT_KEY.match(text, at):
            return WAIT
        if found is None:
            self._scan = JsonScan(text[at])
            self._exactly(self._skipped)
            return at
        self._given = found.group(1)
        self._next(self._comma)
        return found.end()

    def _begin(self, out: list[Delta]) -> None:
        self._started = True
        self._start(self._name or "", out, self._valid_id(self._given))
        if self._early is not None:
            self._give_early(out)

    def _valid_id(self, given: str | None) -> str | None:
        """An id that the model wrote, if it is valid."""
        return None

    def _arguments(self, text: str, at: int, out: list[Delta]) -> int:
        end = self._scan.end(text, at)
        piece = text[at:] if end < 0 else text[at:end]
        if self._early is None:
            self._argue(piece, out)
        else:
            self._early.append(piece)
        if end < 0:
            self._flows = self._early is None and self._arguing() is not None
            return len(text)
        self._flows = False
        if self._started and self._early is not None:
            self._give_early(out)
        self._next(self._comma)
        return end

    def _give_early(self, out: list[Delta]) -> None:
        arguments = "".join(self._early or ())
        if self._stringed:
            arguments = _unquoted(arguments)
        self._argue(arguments, out)

    def _skipped(self, text: str, at: int, out: list[Delta]) -> int:
        end = self._scan.end(text, at)
        if end < 0:
            return len(text)
        self._next(self._comma)
        return end

    def _comma(self, text: str, at: int, out: list[Delta]) -> int:
        if text[at] == ",":
            self._next(self._key)
            return at + 1
        return self._close(at, out) if text[at] == "}" else self._broken(at, out)

    def _close(self, at: int, out: list[Delta]) -> int:
        if not self._started:
            if not self.EAGER or self._name is None:
                return self._broken(at, out)
            self._begin(out)
        self._end_call(out)
        self._object_ended()
        return at + 1

    def _listing(self, text: str, at: int, out: list[Delta]) -> int:
        """Read what follows an object in an array."""
        if text[at] == "]":
            self._next(self._space)
            return at + 1
        if text[at] != ",":
            return self._space(text, at, out)
        self._raw = []
        self._next(self._object)
        return at + 1


def _unquoted(arguments: str) -> str:
    """Unquote JSON text that was itself written as a JSON string; other text is returned unchanged."""
    try:
        return str(orjson.loads(arguments))
    except orjson.JSONDecodeError:
        return arguments
