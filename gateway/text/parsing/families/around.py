"""Tags that a model writes around its answer's text."""

from gateway.text.parsing.delta import Delta, Text
from gateway.text.parsing.markers import ABSENT, UNKNOWN, Markers, literal
from gateway.text.parsing.parser import OutputParser


class AroundParser:
    """An `OutputParser` that leaves out a tag at the answer's start and, after such a one, the first closing tag.

    White space right after the opening tag, and around the closing one's place at the answer's end, is kept. What is
    left goes to another parser; None: it is text.
    """

    __slots__ = ("_closing", "_held", "_inner", "_opening", "_state", "thinking")

    def __init__(self, tags: tuple[str, str], inner: OutputParser | None) -> None:
        self._opening = tags[0]
        self._closing = Markers(tags[1])
        self._inner = inner
        #: What may come: the opening tag, the closing one, or neither.
        self._state = self._start
        self._held = ""
        #: See `OutputParser`.
        self.thinking = False

    def flow(self) -> Delta | None:
        if self._held or self._state == self._start:
            return None
        return Text("") if self._inner is None else self._inner.flow()

    def feed(self, text: str) -> list[Delta]:
        text, self._held = self._held + text, ""
        return self._state(text)

    def finish(self) -> list[Delta]:
        out = self._rest(self._held)
        self._held = ""
        return out if self._inner is None else out + self._inner.finish()

    def _start(self, text: str) -> list[Delta]:
        at = len(text) - len(text.lstrip())
        after = literal(text, at, self._opening)
        if after == UNKNOWN:
            self._held = text
            return []
        self._state = self._rest if after == ABSENT else self._within
        return self._state(text if after == ABSENT else text[after:])

    def _within(self, text: str) -> list[Delta]:
        found = self._closing.search(text)
        if found is None:
            return self._rest(text)
        out = self._rest(text[: found.start()])
        if not self._closing.is_whole(found):
            self._held = text[found.start() :]
            return out
        self._state = self._rest
        return out + self._rest(text[found.end() :])

    def _rest(self, text: str) -> list[Delta]:
        if not text:
            return []
        return [Text(text)] if self._inner is None else self._inner.feed(text)
