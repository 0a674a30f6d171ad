"""Tool calls of Gemma 4, in a notation of its own with a mark for quotes."""

import re
from collections.abc import Collection
from typing import Final

import orjson

from gateway.text.parsing.call_machine import WAIT, CallMachine
from gateway.text.parsing.delta import Delta
from gateway.text.parsing.markers import ABSENT, UNKNOWN, Markers, literal
from gateway.text.parsing.section_calls import quoted
from gateway.text.parsing.single_arguments import ArgumentForm, single_arguments
from gateway.text.parsing.structural_tag import CallForm
from gateway.text.parsing.tool_format import ToolFormat, by_name

OPEN, CLOSE, QUOTE = "<|tool_call>", "<tool_call|>", '<|"|>'
_CALL: Final = "call:"
_QUOTE: Final = Markers(QUOTE)
#: What has a meaning in a value outside of strings.
_VALUE: Final = Markers(QUOTE, CLOSE, "{", "}", "[", "]", ",", '"')
#: A string of JSON, or all of it that is there: a backslash at the end is left out.
_JSON_STRING: Final = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+("?)', re.DOTALL)
_KEY: Final = re.compile(r"[^:{}\[\],<>]{0,256}+")
_BARE_KEY: Final = re.compile(r"([^\s:]+)\s*:")


class Gemma4Calls(CallMachine):
    """`<|tool_call>call:NAME{key:value,key:<|"|>text<|"|>}<tool_call|>` for each call; keys have no quotes.

    Strings are streamed, and other values given once they are complete: as JSON, or as a string if they are none. The
    closing mark may be missing.
    """

    __slots__ = ("_depth", "_key", "_name_text", "_parts")

    MARKERS = Markers(OPEN)

    def __init__(self, names: Collection[str], *, parallel: bool) -> None:
        super().__init__(names, parallel=parallel)
        self._name_text = re.compile(rf"[^\s{{<]{{0,{max(map(len, self._names), default=0) + 1}}}+")
        #: The current value: the text before it, its open brackets, and its pieces as JSON.
        self._key = ""
        self._depth = 0
        self._parts: list[str] = []

    def _flowing(self) -> Delta | None:
        return self._arguing() if self._state == self._string else super()._flowing()

    def _opened(self, marker: str) -> None:
        self._next(self._calling)

    def _calling(self, text: str, at: int, out: list[Delta]) -> int:
        after = literal(text, at, _CALL)
        if after == UNKNOWN:
            return WAIT
        if after == ABSENT:
            self._reject(out)
            return at
        self._next(self._named)
        return after

    def _named(self, text: str, at: int, out: list[Delta]) -> int:
        end = self._name_text.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing at all, too
        if end == len(text):
            return WAIT
        name = text[at:end]
        if text[end] != "{" or name not in self._names:
            self._reject(out)
            return at
        self._start(name, out)
        self._next(self._argument)
        return end + 1

    def _argument(self, text: str, at: int, out: list[Delta]) -> int:
        """Read the next argument's key, or the call's end."""
        if text[at] == ",":
            return at + 1
        # Some write keys in quotes, too.
        after = literal(text, at, QUOTE)
        if after == UNKNOWN:
            return WAIT
        begin = at if after == ABSENT else after
        end = _KEY.match(text, begin).end()  # type: ignore[union-attr]  # it matches nothing at all, too
        if end == len(text):
            return WAIT
        key, closing = text[begin:end].strip(), end
        if after != ABSENT:
            closing = literal(text, end, QUOTE)
            if closing == UNKNOWN or closing == len(text):
                return WAIT
        if closing == ABSENT or text[closing] != ":" or not key:
            return self._ended(text, at, out)
        self._key = f"{', ' if self._argued else '{'}{quoted(key)}: "
        self._next(self._value)
        return closing + 1

    def _ended(self, text: str, at: int, out: list[Delta]) -> int:
        self._argue("}" if self._argued else "{}", out)
        self._open = False
        self._next(self._closing)
        return at + (text[at] == "}")

    def _closing(self, text: str, at: int, out: list[Delta]) -> int:
        return self._after(text, at, CLOSE, self._space, self._text)

    def _value(self, text: str, at: int, out: list[Delta]) -> int:
        after = literal(text, at, QUOTE)
        if after == UNKNOWN:
            return WAIT
        if after != ABSENT:
            self._argue(f'{self._key}"', out)
            self._exactly(self._string)
            return after
        self._depth, self._parts = 0, []
        self._exactly(self._other)
        return at

    def _string(self, text: str, at: int, out: list[Delta]) -> int:
        found = _QUOTE.search(text, at)
        start = len(text) if found is None else found.start()
        if start > at:
            self._argue(quoted(text[at:start])[1:-1], out)
            return start
        if found is None or not _QUOTE.is_whole(found):
            return WAIT
        self._argue('"', out)
        self._next(self._argument)
        return found.end()

    def _other(self, text: str, at: int, out: list[Delta]) -> int:
        """Read a value that is no string."""
        found = _VALUE.search(text, at)
        start = len(text) if found is None else found.start()
        if start > at:
            self._parts.append(text[at:start])
            return start
        if found is None or not _VALUE.is_whole(found):
            return WAIT
        mark = found.group()
        if mark == CLOSE or (not self._depth and mark in ",}]"):
            self._argue(self._key + _json("".join(self._parts)), out)
            self._next(self._argument)
            return at
        begins = mark == '"' and self._begins_value()
        self._parts.append(mark)
        if mark == QUOTE:
            self._exactly(self._inner_string)
        elif begins:
            self._exactly(self._json_string)
        else:
            self._depth += (mark in "{[") - (mark in "}]")
        return found.end()

    def _begins_value(self) -> bool:
        """Whether what comes now is a value of its own, so that a quotation mark begins a string of JSON."""
        before = next((part.rstrip() for part in reversed(self._parts) if not part.isspace()), "")
        return not before or before[-1] in "{[,:"

    def _json_string(self, text: str, at: int, out: list[Delta]) -> int:
        found = _JSON_STRING.match(text, at)
        assert found is not None, "the pattern matches nothing at all, too"
        if found.end() == at:
            return WAIT
        self._parts.append(found.group())
        if found[1]:
            self._exactly(self._other)
        return found.end()

    def _inner_string(self, text: str, at: int, out: list[Delta]) -> int:
        found = _QUOTE.search(text, at)
        if found is not None and not _QUOTE.is_whole(found) and found.start() == at:
            return WAIT
        end = len(text) if found is None else found.start()
        if end > at:
            self._parts.append(text[at:end])
            return end
        self._parts.append(QUOTE)
        self._exactly(self._other)
        return at + len(QUOTE)


def _json(written: str) -> str:
    """Convert a value to JSON; what is none becomes a string."""
    if _is_json(written):
        return written.strip()
    pieces = written.split(QUOTE)
    # Every other piece is within quotes.
    pieces[::2] = [_BARE_KEY.sub(_keyed, _spaced(piece)) for piece in pieces[::2]]
    pieces[1::2] = [quoted(piece) for piece in pieces[1::2]]
    text = "".join(pieces).strip()
    return text if _is_json(text) else quoted(written.strip())


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _keyed(found: re.Match[str]) -> str:
    """Put a key in quotes, unless it has some."""
    return found[0] if found[1].startswith('"') else f"{quoted(found[1])}:"


def _spaced(piece: str) -> str:
    """Part brackets and commas from the keys after them."""
    return re.sub(r"([{}\[\],])", r"\1 ", piece)


def _around(key: str, kind: str) -> tuple[str, str]:
    quote = QUOTE if kind == "string" else ""
    return f"{key}:{quote}", quote


FORMAT = ToolFormat(
    marks=frozenset({OPEN, CLOSE, QUOTE}),
    new_parser=by_name(Gemma4Calls),
    triggers=(OPEN,),
    forms=(
        CallForm(
            *(f"{OPEN}{_CALL}", ("{",), ""),
            arguments=single_arguments(ArgumentForm(_around, f"}}{CLOSE}", between=",", split=True)),
        ),
    ),
)
