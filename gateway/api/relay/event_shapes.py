"""A fast path for stream events that differ from the one before only in a piece of one text."""

from typing import Any, Final

import msgspec

from gateway.api.relay.answer_texts import StreamedText
from gateway.api.relay.relayed_strings import Item

#: Bound on the shapes of a stream, and on how many are learned.
_MOST_SHAPES: Final = 16
_MOST_LESSONS: Final = 64
#: Marks the text's place; no upstream writes it by chance.
_MARK: Final = "\x02penstock 6f1d\x03"
_MARK_WRITTEN: Final = msgspec.json.encode(_MARK)
_text: Final = msgspec.json.Decoder(str).decode
_decode: Final = msgspec.json.decode
_encode: Final = msgspec.json.encode


class Shape:
    """The bytes of an upstream's event before and after a text, and those of the event that is sent."""

    __slots__ = ("after", "before", "sent_after", "sent_before", "text")

    def __init__(self, before: bytes, after: bytes, sent_before: bytes, sent_after: bytes, text: StreamedText) -> None:
        self.before = before
        self.after = after
        self.sent_before = sent_before
        self.sent_after = sent_after
        self.text = text

    def piece(self, event: bytes) -> str | None:
        """Extract the text of an event; None: the event has another shape."""
        if not event.startswith(self.before) or not event.endswith(self.after):
            return None
        try:
            # Exactly one string, so that the rest of the event is as it was.
            return _text(b'"%b"' % event[len(self.before) : len(event) - len(self.after)])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    def with_text(self, text: str) -> bytes:
        """Make the event that is sent, its end included."""
        return b"".join((self.sent_before, _encode(text), self.sent_after))


class Shapes:
    """The recent shapes of a stream."""

    def __init__(self) -> None:
        self.known: list[Shape] = []
        self._lessons = 0

    def learn(self, event: bytes, sent: dict[str, Any], container: Any, text: StreamedText, piece: str) -> None:
        """Learn the shape of an event that has this piece of text and nothing else that must be screened each time.

        `sent` is the event as it is sent; the text is in its `container`.
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
        if not _is_in_place(b"%b%b%b" % (before[5:], _MARK_WRITTEN, after), text):
            return
        container[key] = _MARK
        parts = (b"data: %b\n\n" % _encode(sent)).split(_MARK_WRITTEN)
        if len(parts) == 2:
            # A text has one shape at a time: the other members of the old one (a time, an id) have changed.
            self.known = [shape for shape in self.known if shape.text is not text and not shape.text.over]
            self.known.insert(0, Shape(before + b'"', b'"' + after, parts[0], parts[1], text))
            del self.known[_MOST_SHAPES:]


def _is_in_place(data: bytes, text: StreamedText) -> bool:
    """Whether the mark is in the place of that text, and nowhere else."""
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
