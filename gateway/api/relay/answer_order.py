"""Put the pieces of an upstream's choice into the order that other APIs need: one part after another, calls whole."""

from collections.abc import Sequence
from typing import Final

import msgspec

from gateway.api.relay.chat_reading import CallPiece, ChoicePiece, unreadable_answer
from gateway.text.parsing.delta import CallArguments, CallStart, Delta, Reasoning, Text
from gateway.text.parsing.value_scan import JsonScan
from protos.types import FinishReason

#: Bounds on the tool calls of a choice, and on the characters that are held back.
_MOST_CALLS: Final = 1024
_MOST_HELD: Final = 64 * 1024 * 1024


class _Call:
    """One tool call. `pieces`: its arguments so far, of `size` characters; `sent`: how many of them are out; `closed`:
    no more may come.
    """

    __slots__ = ("_object", "closed", "id", "name", "number", "pieces", "sent", "size", "started")

    def __init__(self, number: int, id_: str) -> None:
        self.number = number
        self.id = id_
        self.name = ""
        self.pieces: list[str] = []
        self.sent = self.size = 0
        self.started = self.closed = False
        self._object = _ObjectEnd()

    @property
    def whole(self) -> bool:
        """Whether the arguments are a whole JSON object. A call may have none, but that shows only at the end."""
        return self._object.is_after(self.pieces)


class _ObjectEnd:
    """Tells whether pieces of text are a JSON object. Each is looked at once, and all of them are decoded once."""

    __slots__ = ("_is_object", "_scan", "_seen")

    def __init__(self) -> None:
        self._scan: JsonScan | None = None
        self._seen = 0
        #: None: not known yet.
        self._is_object: bool | None = None

    def is_after(self, pieces: Sequence[str]) -> bool:
        """Whether these pieces are an object, which only ever grow in number from call to call."""
        while self._seen < len(pieces):
            self._seen += 1
            self._look(pieces)
        return self._is_object is True

    def _look(self, pieces: Sequence[str]) -> None:
        piece = pieces[self._seen - 1]
        start = len(piece) - len(piece.lstrip())
        if start == len(piece) or self._is_object is False:
            return
        if self._scan is None:
            self._scan, self._is_object = JsonScan("{"), None if piece[start] == "{" else False
        if self._is_object is not None:
            # What follows an object makes it none.
            self._is_object = False
            return
        end = self._scan.end(piece, start)
        if end >= 0:
            self._is_object = not piece[end:].strip() and _is_object("".join(pieces[: self._seen]))


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


class AnswerOrder:
    """One choice of an answer.

    Text and calls go out as they come. What comes while a call is not whole is held back, since its upstream may go on
    with that call: some write several at once.
    """

    def __init__(self) -> None:
        #: The call that goes out as it comes, and what waits for its end.
        self._open: _Call | None = None
        self._held: list[_Call | Text | Reasoning] = []
        self._held_size = 0
        #: The last call at each of the upstream's places.
        self._places: dict[int, _Call] = {}
        self._ids: set[str] = set()
        self._count = 0
        self.empty = True

    def add(self, piece: ChoicePiece) -> list[Delta]:
        """Take in a piece; return what can go out. Raises ReplicaFailed."""
        deltas: list[Delta] = []
        if piece.thought:
            self._add_text(deltas, Reasoning(piece.thought))
        if piece.text:
            self._add_text(deltas, Text(piece.text, told=piece.told))
        for call in piece.calls:
            self._add_call(call)
        if piece.calls:
            self._advance(deltas)
        return deltas

    def end(self, finish: FinishReason) -> list[Delta]:
        """Return what was held back. Raises ReplicaFailed: a call has no name."""
        deltas: list[Delta] = []
        if self._open is not None:
            self._close(deltas, self._open, cut=finish is not FinishReason.STOP and not self._held)
        for position, part in enumerate(self._held):
            if isinstance(part, _Call):
                last = position == len(self._held) - 1
                self._close(deltas, part, cut=finish is not FinishReason.STOP and last)
            else:
                deltas.append(part)
        self._open, self._held = None, []
        return deltas

    def _add_text(self, deltas: list[Delta], text: Text | Reasoning) -> None:
        self.empty = False
        if self._open is not None and not self._held and self._open.whole:
            self._close(deltas, self._open)
            self._open = None
        if self._open is None:
            deltas.append(text)
        else:
            self._held.append(text)
            self._hold(len(text.text))

    def _add_call(self, piece: CallPiece) -> None:
        self.empty = False
        call = self._places.get(piece.place)
        if call is None or _begins(call, piece):
            call = self._begin(piece)
        elif piece.name and piece.name != call.name:
            if call.started:
                raise unreadable_answer(f"the name of tool call {call.number} changes")
            call.name += piece.name
        if piece.id and not call.started and not call.id:
            call.id = self._own_id(piece.id)
        if not piece.arguments or _repeats(call, piece):
            return
        if call.closed:
            if not piece.arguments.isspace():
                raise unreadable_answer(f"tool call {call.number} goes on after its end")
            return
        call.pieces.append(piece.arguments)
        call.size += len(piece.arguments)
        if call is not self._open:
            self._hold(len(piece.arguments))

    def _begin(self, piece: CallPiece) -> _Call:
        if self._count >= _MOST_CALLS:
            raise unreadable_answer(f"it has more than {_MOST_CALLS} tool calls")
        call = self._places[piece.place] = _Call(self._count, self._own_id(piece.id) if piece.id else "")
        call.name = piece.name
        self._count += 1
        if self._open is None:
            self._open = call
        else:
            self._held.append(call)
        return call

    def _own_id(self, id_: str) -> str:
        """Give an id that no call before has, which clients tell calls apart by."""
        while id_ in self._ids:
            id_ += "_"
        self._ids.add(id_)
        return id_

    def _advance(self, deltas: list[Delta]) -> None:
        """Send what there is of the open call, and of those behind it once it is whole."""
        while self._open is not None:
            self._send(deltas, self._open)
            if not self._held or not self._open.whole:
                return
            self._close(deltas, self._open)
            self._open = None
            while self._held and self._open is None:
                part = self._held.pop(0)
                if isinstance(part, _Call):
                    self._open = part
                else:
                    deltas.append(part)

    def _send(self, deltas: list[Delta], call: _Call) -> None:
        """Send a call's new pieces. It starts with the first of its arguments: until then its name may go on."""
        if call.sent == len(call.pieces) or not call.name:
            return
        if not call.started:
            call.started = True
            call.id = call.id or self._own_id(f"call_{call.number}")
            deltas.append(CallStart(call.number, call.id, call.name))
        deltas.append(CallArguments(call.number, "".join(call.pieces[call.sent :])))
        call.sent = len(call.pieces)

    def _close(self, deltas: list[Delta], call: _Call, *, cut: bool = False) -> None:
        """End a call. Arguments are JSON text, so that those of a call that has none are an empty object."""
        if not call.name:
            raise unreadable_answer(f"tool call {call.number} has no name")
        if not "".join(call.pieces).strip() and not cut:
            call.pieces.append("{}")
        if not call.pieces:
            call.pieces.append("")
        self._send(deltas, call)
        call.closed = True

    def _hold(self, size: int) -> None:
        self._held_size += size
        if self._held_size > _MOST_HELD:
            raise unreadable_answer("several tool calls are mixed in it, and too long to be held back")


def _begins(call: _Call, piece: CallPiece) -> bool:
    """Whether a piece at the place of a call begins another: some upstreams count every call 0, some count none.

    Some send a new id, and some the name, with every piece of the same call.
    """
    if not piece.name or not call.name:
        return False
    if piece.id and call.id:
        return piece.id != call.id and (piece.name != call.name or not call.pieces or call.whole)
    return bool(piece.arguments) and bool(call.pieces) and call.whole


def _repeats(call: _Call, piece: CallPiece) -> bool:
    """Whether a piece says again, under the same id, what a whole call has said."""
    if not piece.id or piece.id != call.id or call.size != len(piece.arguments):
        return False
    return call.whole and "".join(call.pieces) == piece.arguments


def ordered(piece: ChoicePiece) -> Sequence[Delta]:
    """Give the deltas of a whole choice. Raises ReplicaFailed."""
    order = AnswerOrder()
    return [*order.add(piece), *order.end(piece.finish or FinishReason.STOP)]
