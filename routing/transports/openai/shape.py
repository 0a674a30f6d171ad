"""Caches how a stream's chunks are rewritten: as a rule they differ in their text alone."""

import re
from typing import Final

#: The text of a chunk: chat content, reasoning or completion. Never matches inside a JSON string (quotes are escaped).
_TEXT: Final = re.compile(rb'"(?:(?:reasoning_)?content|reasoning|text)":"([^"\\\n]*)"')
#: Bound on learning: a stream whose chunks differ in more than their text is not learned again and again.
_MOST_LESSONS: Final = 8


class Shape:
    """Recognises an event that differs from a learned one in its text alone, and rewrites it likewise.

    The text must have no quote and no line end, so that it cannot be anything else.
    """

    __slots__ = ("_after", "_before", "_lessons", "_shown_after", "_shown_before", "text_bytes")

    def __init__(self) -> None:
        self._before = self._after = b""
        self._shown_before: bytes | None = None
        self._shown_after = b""
        self._lessons = 0
        #: Bytes of text in the events that were recognised.
        self.text_bytes = 0

    def shown(self, data: bytes) -> bytes | None:
        """Return the rewritten event; None: it has another shape."""
        before, after = self._before, self._after
        if (
            not before
            or not data.startswith(before)
            or not data.endswith(after)
            or data.find(b'"', len(before)) != len(data) - len(after)
            or data.find(b"\n") != len(data) - 2
        ):
            return None
        text = data[len(before) : len(data) - len(after)]
        self.text_bytes += len(text)
        if self._shown_before is None:
            return data
        return b"".join((self._shown_before, text, self._shown_after))

    def learn(self, data: bytes, shown: bytes) -> None:
        """Learn one whole event with data and its rewritten form."""
        if self._lessons >= _MOST_LESSONS or data.find(b"\n") != len(data) - 2:
            return
        self._lessons += 1
        theirs, ours = _TEXT.search(data), _TEXT.search(shown)
        if theirs is None or ours is None or theirs[1] != ours[1]:
            return
        self._before, self._after = data[: theirs.start(1)], data[theirs.end(1) :]
        self._shown_before = None
        if shown != data:
            self._shown_before, self._shown_after = shown[: ours.start(1)], shown[ours.end(1) :]
