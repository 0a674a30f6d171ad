"""The texts of a relayed answer before the filters: a screen for each, and the judges after it."""

import asyncio
from collections.abc import Iterator
from typing import Final, NamedTuple

from gateway.filters.answers import AnswerFilter, JudgedAnswer
from gateway.http.relayed_strings import Path, is_json, unreadable
from safety.json_escapes import Unescaping, unescaped
from safety.screen import Finding, Screen

#: An answer of more texts than this is none.
MOST_TEXTS: Final = 4096
#: Longer texts leave the event loop.
_INLINE: Final = 65_536
#: So much of the end of a text is looked at again with what is said in its place later.
_TAIL: Final = 128
#: Half a character, as UTF-16 has it and as JSON's escapes write it.
_HIGH: Final = ("\ud800", "\udbff")


class FoundIn(NamedTuple):
    """What was found in the texts of one choice, of so many characters in all."""

    choice: int
    characters: int
    findings: list[Finding]
    failures: list[str]


class StreamedText:
    """A text that comes in pieces. `over`: all of it has come; `due`: there is enough for the judges to be asked.

    What is said in the place of a text that seemed to be over goes on after it: a match that begins in what has been
    shown already cuts it off.
    """

    __slots__ = (
        "_escapes",
        "_half",
        "_judged",
        "_mended",
        "_stands",
        "choice",
        "due",
        "over",
        "path",
        "screen",
        "tail",
    )

    def __init__(self, choice: int, path: Path, screen: Screen, judged: JudgedAnswer | None) -> None:
        self.choice = choice
        self.path = path
        self.screen = screen
        #: The end of what came.
        self.tail = ""
        self._judged = judged
        self._escapes = Unescaping() if is_json(path) else None
        self._half = ""
        #: What comes of the text before it, and is not to be shown again.
        self._stands = ""
        #: Whether that has become something else.
        self._mended = False
        self.over = self.due = False

    @property
    def blocked(self) -> bool:
        """Whether it has been cut off."""
        judged = self._judged
        return self.screen.blocked is not None or self._mended or (judged is not None and judged.blocked is not None)

    def follow(self, tail: str, stands: str) -> None:
        """It goes on after a text with that end, which was shown like that. Called first. Raises FilterFailed."""
        self._stands = stands
        self.tail = tail
        self._unshown(self.screen.feed(tail))

    def feed(self, piece: str) -> str:
        """The next piece; gives what may be shown now. Raises FilterFailed."""
        if self._escapes is not None:
            piece = self._escapes.feed(piece)
        if self._half or not piece.isascii():
            piece = self._whole_characters(piece)
        self.tail = (self.tail + piece)[-_TAIL:]
        shown = self.screen.feed(piece)
        if self._stands or self._mended:
            shown = self._unshown(shown)
        if self._judged is None:
            return shown
        self.due = self._judged.add(shown)
        return ""

    def _unshown(self, shown: str) -> str:
        """That without what was shown before."""
        size = min(len(self._stands), len(shown))
        self._mended = self._mended or self._stands[:size] != shown[:size]
        self._stands = self._stands[size:]
        return "" if self._mended else shown[size:]

    async def settle(self) -> str:
        """What may be shown after the judges' verdict. Raises FilterFailed."""
        assert self._judged is not None, "only judges make it due"
        self.due = False
        return await self._judged.settle(last=False)

    async def finish(self) -> str:
        """The rest of what may be shown. Raises FilterFailed."""
        self.over = True
        rest = "\ufffd" if self._half else ""
        if self._escapes is not None:
            rest += self._escapes.rest
        self.tail = (self.tail + rest)[-_TAIL:]
        shown = self.screen.feed(rest) if rest else ""
        self._half = ""
        shown += self.screen.finish()
        if self._stands or self._mended:
            shown = self._unshown(shown)
        if self._judged is None:
            return shown
        self._judged.add(shown)
        return await self._judged.settle(last=True)

    def _whole_characters(self, piece: str) -> str:
        """Halves of characters joined, those that stay alone replaced; the last one waits for its other half."""
        piece = self._half + piece
        self._half = ""
        if _HIGH[0] <= piece[-1:] <= _HIGH[1]:
            piece, self._half = piece[:-1], piece[-1]
        return whole_characters(piece)


class AnswerTexts:
    """All texts of one answer, by its choices."""

    def __init__(self, filter_: AnswerFilter) -> None:
        self._filter = filter_
        self._screens: dict[int, list[Screen]] = {}
        self._count = 0

    def streamed(self, choice: int, path: Path, tail: str) -> StreamedText:
        """A new one, in that place of a choice, after one with that end. Raises FilterFailed."""
        self._count += 1
        if self._count > MOST_TEXTS:
            raise unreadable(f"an answer of more than {MOST_TEXTS} texts")
        screen = self._screen()
        self._screens.setdefault(choice, []).append(screen)
        text = StreamedText(choice, path, screen, self._filter.answer() if self._filter.judges else None)
        if tail:
            stood = self._screen().whole(tail)
            if stood.blocked is None:
                text.follow(tail, stood.text)
        return text

    def whole(self, choice: int, text: str) -> tuple[str, bool]:
        """A text that came whole: what may be shown of it, and whether it has been cut off. Raises FilterFailed."""
        screen = self._screen()
        result = screen.whole(whole_characters(text))
        if (result.findings or screen.failures) and self._count < MOST_TEXTS:
            self._count += 1
            self._screens.setdefault(choice, []).append(screen)
        return result.text, result.blocked is not None

    async def judged(self, choice: int, path: Path, text: str) -> tuple[str, bool]:
        """The same, with the judges asked after the screens; long texts leave the event loop. Raises FilterFailed."""
        if is_json(path):
            text = unescaped(text)
        if len(text) <= _INLINE:
            text, blocked = self.whole(choice, text)
        else:
            text, blocked = await asyncio.to_thread(self.whole, choice, text)
        if not self._filter.judges or not text:
            return text, blocked
        answer = self._filter.answer()
        answer.add(text)
        text = await answer.settle(last=True)
        return text, blocked or answer.blocked is not None

    def found(self) -> Iterator[FoundIn]:
        """What the screens have found so far, and which filters failed and were left out."""
        for choice, screens in sorted(self._screens.items()):
            findings = [finding for screen in screens for finding in screen.findings]
            failures = sorted({name for screen in screens for name in screen.failures})
            if findings or failures:
                yield FoundIn(choice, sum(screen.received for screen in screens), findings, failures)

    def _screen(self) -> Screen:
        new_screen = self._filter.new_screen
        return Screen(()) if new_screen is None else new_screen()


def whole_characters(text: str) -> str:
    """The text with halves of characters joined, and those that stay alone replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
