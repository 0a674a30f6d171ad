"""What most events of a stream are: one more piece of one text, in the same words as before."""

from typing import Any, Final

import msgspec

from gateway.api.relay.answer_texts import StreamedText
from gateway.api.relay.relayed_strings import Item

#: Shapes that a stream may have at once, and how often new ones are learned.
_MOST_SHAPES: Final = 16
_MOST_LESSONS: Final = 64
#: Stands where the text goes; no upstream writes it by chance.
_MARK: Final = "\x02penstock 6f1d\x03"
_MARK_WRITTEN: Final = msgspec.json.encode(_MARK)
_text: Final = msgspec.json.Decoder(str).decode
_decode: Final = msgspec.json.decode
_encode: Final = msgspec.json.encode


class Shape:
    """An event of an upstream up to a text and after it, and the same as it is sent."""

    __slots__ = ("after", "before", "sent_after", "sent_before", "text")

    def __init__(self, before: bytes, after: bytes, sent_before: bytes, sent_after: bytes, text: StreamedText) -> None:
        self.before = before
        self.after = after
        self.sent_before = sent_before
        self.sent_after = sent_after
        self.text = text

    def piece(self, event: bytes) -> str | None:
        """The text in an event; None: it is none of this shape."""
        if not event.startswith(self.before) or not event.endswith(self.after):
            return None
        try:
            # One string and nothing else, so that the rest of the event is what it was.
            return _text(b'"%b"' % event[len(self.before) : len(event) - len(self.after)])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    def with_text(self, text: str) -> bytes:
        """The event as it is sent, its end included."""
        return b"".join((self.sent_before, _encode(text), self.sent_after))


class Shapes:
    """Those that a stream has had of late."""

    def __init__(self) -> None:
        self.known: list[Shape] = []
        self._lessons = 0

    def learn(self, event: bytes, sent: dict[str, Any], container: Any, text: StreamedText, piece: str) -> None:
        """From an event that has that one piece of text and nothing else that must be looked at each time.

        `sent` is what becomes of it, and the text is in that `container` in there.
        """
        if self._lessons >= _MOST_LESSONS:
            return
        self._lessons += 1
        key = text.path[-1]
        try:
            name, value = _encode(key), _encode(piece)
        except UnicodeEncodeError:
            return  # half a character
        for colon in (b":", b": "):
            if event.count(name + colon + value) == 1:
                at = event.index(name + colon + value) + len(name + colon)
                before, after = event[:at], event[at + len(value) :]
                break
        else:
            return
        if not _stands(b"%b%b%b" % (before[5:], _MARK_WRITTEN, after), text):
            return
        container[key] = _MARK
        parts = (b"data: %b\n\n" % _encode(sent)).split(_MARK_WRITTEN)
        if len(parts) == 2:
            # A text has one shape at a time: what else there is of it (a time, an id) has changed.
            self.known = [shape for shape in self.known if shape.text is not text and not shape.text.over]
            self.known.insert(0, Shape(before + b'"', b'"' + after, parts[0], parts[1], text))
            del self.known[_MOST_SHAPES:]


def _stands(data: bytes, text: StreamedText) -> bool:
    """Whether the mark is in the place of that text, and of nothing else that is said in such words."""
    try:
        node = _decode(data)["choices"]
        for step in (Item(None, 0), *text.path):
            if isinstance(step, Item):
                (node,) = node
            else:
                node = node[step]
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    return bool(node == _MARK)
