"""Reasoning between tags, before the answer's text."""

from collections.abc import Callable
from collections.abc import Sequence as Items

from gateway.text.parsing.delta import CallStart, Delta, Reasoning, Text
from gateway.text.parsing.markers import ABSENT, UNKNOWN, Markers, literal
from gateway.text.parsing.parser import OutputParser


class ThinkTags:
    """A family's tags, and markers that end unclosed reasoning, such as the start of a section of calls."""

    __slots__ = ("bare", "close", "ends", "open")

    def __init__(self, opening: str, closing: str, breaks: Items[str] = ()) -> None:
        self.open = opening
        self.close = closing
        self.ends = Markers(closing, *breaks)
        self.bare = Markers(closing)

    def opened_by(self, prompt_end: str) -> bool:
        """Whether the prompt opens the reasoning, so that the answer starts within it."""
        return prompt_end.rstrip().endswith(self.open)


class ThinkParser:
    """An `OutputParser` that passes what follows the reasoning to another one; None: it is text.

    Reasoning starts with the answer or at the prompt's end: later tags are text. Newlines right after either tag are
    left out, as they only separate the tags; those before the closing tag belong to the reasoning. Unclosed reasoning
    lasts to the answer's end. A closing tag in the text, where none was opened and no call has begun, is left out: in a
    `whole` answer an empty `Reasoning` takes its place.
    """

    __slots__ = (
        "_blank",
        "_held",
        "_inner",
        "_leading",
        "_new_inner",
        "_newlines",
        "_tags",
        "_watches",
        "_whole",
        "thinking",
    )

    def __init__(
        self,
        tags: ThinkTags,
        new_inner: Callable[[], OutputParser | None],
        prompt_end: str | None,
        *,
        whole: bool = False,
    ) -> None:
        self._tags = tags
        self._new_inner = new_inner
        self._inner = new_inner()
        self._whole = whole
        #: See `OutputParser`.
        self.thinking = prompt_end is not None and tags.opened_by(prompt_end)
        #: Whether a closing tag may still come that nothing has opened, and whether the text so far is blank.
        self._watches = prompt_end is not None and not self.thinking
        self._blank = True
        #: White space before a possible tag; None once that is settled.
        self._leading: list[str] | None = None if self.thinking else []
        #: Whether newlines that follow are skipped.
        self._newlines = self.thinking
        self._held = ""

    def flow(self) -> Delta | None:
        if self._held or self._newlines or self._leading is not None:
            return None
        if self.thinking:
            return Reasoning("")
        return Text("") if self._inner is None else self._inner.flow()

    def feed(self, text: str) -> list[Delta]:
        if self.thinking:
            return self._think(text)
        if self._leading is None and not self._newlines:
            return self._emit(text)
        return self._open(text) if self._leading is not None else self._emit_after_newlines(text)

    def finish(self) -> list[Delta]:
        held, self._held = self._held, ""
        if self.thinking:
            return [Reasoning(held)] if held else []
        self._watches = False
        out = self._emit("".join([*(self._leading or ()), held]))
        self._leading = None
        return out if self._inner is None else out + self._inner.finish()

    def _emit(self, text: str) -> list[Delta]:
        if self._watches:
            return self._watched(text)
        if self._inner is not None:
            return self._inner.feed(text)
        return [Text(text)] if text else []

    def _watched(self, text: str) -> list[Delta]:
        """Emit text in which a closing tag may come."""
        text, self._held = self._held + text, ""
        out: list[Delta] = []
        at, end = 0, len(text)
        while at < end and self._watches:
            found = self._tags.bare.search(text, at)
            start = end if found is None else found.start()
            if start > at:
                out += self._passed(text[at:start])
                at = start
            elif found is not None and not self._tags.bare.is_whole(found):
                self._held = text[at:]
                return out
            elif found is not None and self._is_text():
                return out + self._closed(text[found.end() :])
            elif found is not None:
                out += self._passed(found.group())
                at = found.end()
        return out + self._emit(text[at:]) if at < end else out

    def _is_text(self) -> bool:
        """Whether what comes now would be text, and no part of a call."""
        return self._blank or self._inner is None or isinstance(self._inner.flow(), Text)

    def _passed(self, text: str) -> list[Delta]:
        self._blank = self._blank and text.isspace()
        if self._inner is None:
            return [Text(text)]
        out = self._inner.feed(text)
        self._watches = not any(isinstance(delta, CallStart) for delta in out)
        return out

    def _closed(self, text: str) -> list[Delta]:
        """Leave out a closing tag that nothing has opened; the answer begins after it."""
        out = [] if self._inner is None else self._inner.finish()
        self._inner = self._new_inner()
        self._watches = False
        if self._whole:
            out.append(Reasoning(""))
        self._newlines = True
        return out + self._emit_after_newlines(text)

    def _emit_after_newlines(self, text: str) -> list[Delta]:
        text = text.lstrip("\n")
        self._newlines = not text
        return self._emit(text)

    def _open(self, text: str) -> list[Delta]:
        """Read the answer's start: white space, and the opening tag or anything else."""
        assert self._leading is not None, "it is not settled yet"
        text, self._held = self._held + text, ""
        at = len(text) - len(text.lstrip())
        if at:
            self._leading.append(text[:at])
        after = literal(text, at, self._tags.open)
        if after == UNKNOWN:
            self._held = text[at:]
            return []
        leading, self._leading = self._leading, None
        if after == ABSENT:
            return self._emit("".join([*leading, text[at:]]))
        self.thinking = self._newlines = True
        self._watches = False
        return self._think(text[after:])

    def _think(self, text: str) -> list[Delta]:
        if self._held:
            text, self._held = self._held + text, ""
        if self._newlines:
            text = text.lstrip("\n")
            self._newlines = not text
        found = self._tags.ends.search(text)
        if found is None:
            return [Reasoning(text)] if text else []
        start = found.start()
        out: list[Delta] = [Reasoning(text[:start])] if start else []
        if not self._tags.ends.is_whole(found):
            self._held = text[start:]
            return out
        self.thinking = False
        if found.group() != self._tags.close:
            return out + self._emit(text[start:])
        self._newlines = True
        return out + self._emit_after_newlines(text[found.end() :])
